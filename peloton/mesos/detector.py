"""Detection of the Mesos master: a fixed address, or the one elected through ZooKeeper.

Each master creates an ephemeral node `json.info_<number>` with its MasterInfo as JSON; the lowest leads
(recording 09-master-failover-zk).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from peloton.errors import InvalidArgument, PelotonError, Unavailable
from peloton.plainjson import parse_json

if TYPE_CHECKING:
    from peloton.membership.connection import Connection, Watch

INFO = "json.info_"
PAUSE = 0.2
SESSION = 10.0
log = logging.getLogger(__name__)
_ZOOKEEPER = re.compile(r"zk://([^/@\s]+:\d{1,5}(?:,[^/@,\s]+:\d{1,5})*)((?:/[^/\s]+)+)\Z")


class RetryLog:
    """Logs each reason why an operation is repeated once, until it succeeds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._logged: set[str] = set()

    def failed(self, error: PelotonError) -> None:
        """Log the reason of a failure, unless it was logged since the last success."""
        if (reason := str(error)) not in self._logged:
            self._logged.add(reason)
            log.warning("%s: %s; trying again", self._what, reason)

    def succeeded(self) -> None:
        """Forget the reasons that were logged."""
        self._logged.clear()


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """The address of a Mesos master."""

    host: str
    """Where to connect."""
    port: int
    name: str = field(default="", compare=False)
    """Hostname of the master, for which its certificate is issued; empty where only `host` is known."""
    id: str = field(default="", compare=False)
    """The master's own id, new with each start of its process; empty where only the address is known."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def same(self, other: MasterAddress) -> bool:
        """Return whether both are the same process, not one restarted at the same address."""
        return (self.host, self.port, self.id) == (other.host, other.port, other.id)

    @classmethod
    def parse(cls, text: str) -> MasterAddress:
        """Parse HOST:PORT. Raises InvalidArgument."""
        host, colon, port = text.rpartition(":")
        if colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return cls(host.strip("[]"), int(port))
        raise InvalidArgument("Mesos master", text, "HOST:PORT")


@dataclass(frozen=True, slots=True)
class ElectionPath:
    """The place of an election of Mesos masters: ZooKeeper servers, and a node there."""

    servers: str
    path: str

    def __str__(self) -> str:
        return f"zk://{self.servers}{self.path}"

    @classmethod
    def parse(cls, text: str) -> ElectionPath:
        """Parse zk://HOST:PORT,HOST:PORT/PATH. Raises InvalidArgument."""
        found = _ZOOKEEPER.match(text)
        if found is None:
            raise InvalidArgument("Mesos master", text, "zk://HOST:PORT,HOST:PORT/PATH")
        return cls(found[1], found[2])


def parse_master(text: str) -> ElectionPath | MasterAddress:
    """Parse either form. Raises InvalidArgument."""
    return (ElectionPath if text.startswith("zk://") else MasterAddress).parse(text)


class MasterDetector(Protocol):
    """Finds the leading Mesos master."""

    async def master(self) -> MasterAddress:
        """Return the leading master, as last seen. Raises Unavailable where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Elected:
    """The leading master, as it announces itself."""

    master_id: str
    address: MasterAddress


OnRead = Callable[[Elected | None], None]
"""Called with the result of each read of the nodes; None: no master leads."""


@asynccontextmanager
async def detecting(master: str, on_read: OnRead = lambda found: None) -> AsyncIterator[MasterDetector]:
    """Detect the master at HOST:PORT or zk://… while the body runs.

    Waits for ZooKeeper, and logs that. Raises InvalidArgument.
    """
    where = parse_master(master)
    if isinstance(where, MasterAddress):
        yield StaticMaster(where)
        return
    from peloton.membership.connection import Connection  # imports kazoo

    connection = Connection(where.servers, SESSION)
    try:
        await connection.open()
        elected = ElectedMaster(connection, where, on_read)
        following = asyncio.create_task(elected.follow(), name="mesos master")
        following.add_done_callback(elected.ended)
        try:
            yield elected
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        await connection.close()


class ElectedMaster:
    """The leading master of an election in ZooKeeper."""

    def __init__(
        self, connection: Connection, where: ElectionPath, on_read: OnRead = lambda found: None
    ) -> None:
        self._connection = connection
        self._where = where
        self._on_read = on_read
        self._read_once = asyncio.Event()
        self._elected: Elected | None = None
        self._failure: BaseException | None = None

    async def master(self) -> MasterAddress:
        """Return the leading master. Raises Unavailable, and the error that ended `follow`."""
        await self._read_once.wait()
        if self._failure is not None:
            raise self._failure
        if self._elected is None:
            raise Unavailable(f"no Mesos master leads at {self._where}")
        return self._elected.address

    async def follow(self) -> None:
        """Follow the election without end; keep the last master while ZooKeeper cannot be reached."""
        retries = RetryLog(f"Mesos master at {self._where}")
        while True:
            touched = asyncio.Event()
            try:
                found = await self._read(touched.set)
            except PelotonError as error:
                retries.failed(error)
                await asyncio.sleep(PAUSE)
                await self._connection.connected()
                continue
            retries.succeeded()
            if found != self._elected:
                log.info("Mesos master: %s", found.address if found else "none")
            self._elected = found
            self._read_once.set()
            self._on_read(found)
            await touched.wait()

    def ended(self, following: asyncio.Task[None]) -> None:
        """Note the end of the task of `follow`: the last master may not be returned any more."""
        if not following.cancelled():
            self._failure = following.exception()
            self._read_once.set()

    async def _read(self, watch: Watch) -> Elected | None:
        """Read the leading master. Raises NotFound where a node was deleted meanwhile."""
        path = self._where.path
        if not await self._connection.exists(path, watch):
            return None
        names = [name for name in await self._connection.children(path, watch) if name.startswith(INFO)]
        if not names:
            return None
        lowest = min(names, key=lambda name: (len(name), name))
        return announced((await self._connection.get(f"{path}/{lowest}", watch)).value)


def announced(value: bytes) -> Elected | None:
    """Parse the node of a master; log and return None where it holds no address."""
    try:
        info = parse_json(value)
        held = info["address"]
        master_id, name = str(info["id"]), str(info.get("hostname", ""))
        return Elected(master_id, MasterAddress(str(held["ip"]), int(held["port"]), name, master_id))
    except (ValueError, KeyError, TypeError) as error:
        log.error("the node of a Mesos master holds no address: %r: %.200r", error, value)
        return None


class StaticMaster:
    """The master that the settings name."""

    def __init__(self, address: MasterAddress) -> None:
        self._address = address

    async def master(self) -> MasterAddress:
        """Return the address."""
        return self._address

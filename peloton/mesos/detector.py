"""Where the Mesos master is: by address, or as masters elect one through ZooKeeper.

Each master makes an ephemeral node `json.info_<number>` with its MasterInfo as JSON; the lowest leads
(recording 09-master-failover-zk).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from peloton.errors import InvalidArgument, PelotonError, Unavailable
from peloton.membership.connection import Connection, Watch

INFO = "json.info_"
PAUSE = 0.2
SESSION = 10.0
log = logging.getLogger(__name__)
_ZOOKEEPER = re.compile(r"zk://([^/@\s]+:\d{1,5}(?:,[^/@,\s]+:\d{1,5})*)((?:/[^/\s]+)+)\Z")


class Trouble:
    """Says each reason why something is tried again and again, but once until it is over."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said: set[str] = set()

    def met(self, error: PelotonError) -> None:
        if (reason := str(error)) not in self._said:
            self._said.add(reason)
            log.warning("%s: %s; trying again", self._what, reason)

    def over(self) -> None:
        self._said.clear()


@dataclass(frozen=True, slots=True)
class MasterAddress:
    host: str
    """Where to connect."""
    port: int
    name: str = field(default="", compare=False)
    """Hostname that the master goes by, which its certificate is for; empty where only `host` is known."""
    id: str = field(default="", compare=False)
    """The master's own id, new with each start of its process; empty where only the address is known."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def same(self, other: MasterAddress) -> bool:
        """Whether both are one master: not one that was started again at the same address."""
        return (self.host, self.port, self.id) == (other.host, other.port, other.id)

    @classmethod
    def parse(cls, text: str) -> MasterAddress:
        """Raises InvalidArgument for what is no HOST:PORT."""
        host, colon, port = text.rpartition(":")
        if colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return cls(host.strip("[]"), int(port))
        raise InvalidArgument("Mesos master", text, "HOST:PORT")


@dataclass(frozen=True, slots=True)
class ElectionPath:
    """Where Mesos masters contend: the servers of a ZooKeeper, and a node there."""

    servers: str
    path: str

    def __str__(self) -> str:
        return f"zk://{self.servers}{self.path}"

    @classmethod
    def parse(cls, text: str) -> ElectionPath:
        """Raises InvalidArgument for what is no zk://HOST:PORT,HOST:PORT/PATH."""
        found = _ZOOKEEPER.match(text)
        if found is None:
            raise InvalidArgument("Mesos master", text, "zk://HOST:PORT,HOST:PORT/PATH")
        return cls(found[1], found[2])


def parse_master(text: str) -> ElectionPath | MasterAddress:
    """Raises InvalidArgument."""
    return (ElectionPath if text.startswith("zk://") else MasterAddress).parse(text)


class MasterDetector(Protocol):
    async def master(self) -> MasterAddress:
        """The leading master as far as known now. Raises Unavailable where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Elected:
    """The master that leads, as it announces itself."""

    master_id: str
    address: MasterAddress


Look = Callable[[Elected | None], None]
"""Hears what each look at the nodes found; None: no master leads."""


@asynccontextmanager
async def detecting(master: str, looked: Look = lambda found: None) -> AsyncIterator[MasterDetector]:
    """For HOST:PORT or zk://…, meanwhile. Waits for ZooKeeper, saying so. Raises InvalidArgument."""
    where = parse_master(master)
    if isinstance(where, MasterAddress):
        yield StaticMaster(where)
        return
    connection = Connection(where.servers, SESSION)
    try:
        await connection.open()
        elected = ElectedMaster(connection, where, looked)
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
    """The master that leads as Mesos' own election says."""

    def __init__(
        self, connection: Connection, where: ElectionPath, looked: Look = lambda found: None
    ) -> None:
        self._connection = connection
        self._where = where
        self._tell = looked
        self._looked = asyncio.Event()
        self._elected: Elected | None = None
        self._failure: BaseException | None = None

    async def master(self) -> MasterAddress:
        """Raises also what ended `follow`: the master that was seen last must not be believed for ever."""
        await self._looked.wait()
        if self._failure is not None:
            raise self._failure
        if self._elected is None:
            raise Unavailable(f"no Mesos master leads at {self._where}")
        return self._elected.address

    async def follow(self) -> None:
        """For ever. While ZooKeeper cannot be heard, the last master that was seen counts."""
        trouble = Trouble(f"Mesos master at {self._where}")
        while True:
            touched = asyncio.Event()
            try:
                found = await self._look(touched.set)
            except PelotonError as error:
                trouble.met(error)
                await asyncio.sleep(PAUSE)
                await self._connection.connected()
                continue
            trouble.over()
            if found != self._elected:
                log.info("Mesos master: %s", found.address if found else "none")
            self._elected = found
            self._looked.set()
            self._tell(found)
            await touched.wait()

    def ended(self, following: asyncio.Task[None]) -> None:
        """For the task of `follow`."""
        if not following.cancelled():
            self._failure = following.exception()
            self._looked.set()

    async def _look(self, watch: Watch) -> Elected | None:
        """Raises NotFound where what was there went meanwhile."""
        path = self._where.path
        if not await self._connection.exists(path, watch):
            return None
        names = [name for name in await self._connection.children(path, watch) if name.startswith(INFO)]
        if not names:
            return None
        lowest = min(names, key=lambda name: (len(name), name))
        return announced((await self._connection.get(f"{path}/{lowest}", watch)).value)


def announced(value: bytes) -> Elected | None:
    """What a master's node says; None where it says nothing of use, and the log tells it."""
    try:
        info = json.loads(value)
        held = info["address"]
        master_id, name = str(info["id"]), str(info.get("hostname", ""))
        return Elected(master_id, MasterAddress(str(held["ip"]), int(held["port"]), name, master_id))
    except (ValueError, KeyError, TypeError) as error:
        log.error("a Mesos master tells no address: %r: %.200r", error, value)
        return None


class StaticMaster:
    """The master that the settings name."""

    def __init__(self, address: MasterAddress) -> None:
        self._address = address

    async def master(self) -> MasterAddress:
        return self._address

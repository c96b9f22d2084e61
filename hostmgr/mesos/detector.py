"""Where the Mesos master is."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from peloton.errors import InvalidArgument, PelotonError, Unavailable
from peloton.membership.connection import Connection, Watch

INFO = "json.info_"
PAUSE = 0.2
SESSION = 10.0
log = logging.getLogger(__name__)
_ZOOKEEPER = re.compile(r"zk://([^/@\s]+:\d{1,5}(?:,[^/@,\s]+:\d{1,5})*)((?:/[^/\s]+)+)\Z")


@dataclass(frozen=True, slots=True)
class MasterAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> MasterAddress:
        """Raises InvalidArgument for what is no HOST:PORT."""
        host, colon, port = text.rpartition(":")
        if colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return cls(host.strip("[]"), int(port))
        raise InvalidArgument("Mesos master", text, "HOST:PORT")


class MasterDetector(Protocol):
    async def master(self) -> MasterAddress:
        """The leading master as far as known now. Raises Unavailable where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ElectionPath:
    """Where Mesos masters contend: the servers of a ZooKeeper, and a node there."""

    servers: str
    path: str

    @classmethod
    def parse(cls, text: str) -> ElectionPath:
        """Raises InvalidArgument for what is no zk://HOST:PORT,HOST:PORT/PATH."""
        found = _ZOOKEEPER.match(text)
        if found is None:
            raise InvalidArgument("Mesos master", text, "zk://HOST:PORT,HOST:PORT/PATH")
        return cls(found[1], found[2])


@asynccontextmanager
async def detecting(master: str) -> AsyncIterator[MasterDetector]:
    """For HOST:PORT or zk://…, meanwhile. Waits for ZooKeeper, saying so. Raises InvalidArgument."""
    if not master.startswith("zk://"):
        yield StaticMaster(MasterAddress.parse(master))
        return
    where = ElectionPath.parse(master)
    connection = Connection(where.servers, SESSION)
    try:
        await connection.open()
        elected = ElectedMaster(connection, where)
        following = asyncio.create_task(elected.follow(), name="mesos master")
        try:
            yield elected
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    finally:
        await connection.close()


class ElectedMaster:
    """The master that leads as Mesos' own election says: the lowest `json.info_*` (recording 09)."""

    def __init__(self, connection: Connection, where: ElectionPath) -> None:
        self._connection = connection
        self._where = where
        self._looked = asyncio.Event()
        self._master: MasterAddress | None = None

    async def master(self) -> MasterAddress:
        await self._looked.wait()
        if self._master is None:
            raise Unavailable(f"no Mesos master leads at zk://{self._where.servers}{self._where.path}")
        return self._master

    async def follow(self) -> None:
        """For ever. While ZooKeeper cannot be heard, the last master that was seen counts."""
        while True:
            touched = asyncio.Event()
            try:
                found = await self._look(touched.set)
            except PelotonError as error:
                log.warning("Mesos master: %s", error)
                await asyncio.sleep(PAUSE)
                await self._connection.connected()
                continue
            if found != self._master:
                log.info("Mesos master: %s", found or "none")
            self._master = found
            self._looked.set()
            await touched.wait()

    async def _look(self, watch: Watch) -> MasterAddress | None:
        """Raises NotFound where what was there went meanwhile."""
        path = self._where.path
        if not await self._connection.exists(path, watch):
            return None
        names = [name for name in await self._connection.children(path, watch) if name.startswith(INFO)]
        if not names:
            return None
        lowest = min(names, key=lambda name: (len(name), name))
        return _address((await self._connection.get(f"{path}/{lowest}", watch)).value)


def _address(value: bytes) -> MasterAddress | None:
    """None where it is none, and the log tells it."""
    try:
        held = json.loads(value)["address"]
        return MasterAddress(str(held["ip"]), int(held["port"]))
    except (ValueError, KeyError, TypeError) as error:
        log.error("a Mesos master tells no address: %r: %.200r", error, value)
        return None


class StaticMaster:
    """The master that the settings name."""

    def __init__(self, address: MasterAddress) -> None:
        self._address = address

    async def master(self) -> MasterAddress:
        return self._address

"""The record of an installation in ZooKeeper, and the lock of the deployer that works on it.

    <root>/deployments/<name>/record    the record, written with its version only
    <root>/deployments/<name>/deployer  ephemeral: who works on it

A deployer that has lost its session, and with it the lock, loses against the next one: whoever writes last
between two reads of the record fails.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass

import psutil

from deployer.record import Record, from_json, to_json
from peloton.clock import NANOSECONDS, SystemClock
from peloton.config.membership import ZooKeeperMembershipSettings
from peloton.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable
from peloton.membership.connection import Connection, put
from peloton.membership.zookeeper import connection_of
from peloton.model.amounts import elapsed
from peloton.plainjson import parse_json

CONNECT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who works on an installation."""

    host: str
    pid: int
    started: float
    """When the process began, as the operating system says: another process may get its number."""
    user: str
    command: str
    since: float
    """Seconds since 1970."""

    @classmethod
    def this(cls, command: str, now: float) -> Holder:
        """Return the holder that this process is."""
        process = psutil.Process()
        return cls(socket.gethostname(), process.pid, process.create_time(), _user(), command, now)

    def told(self, now: float) -> str:
        """Return who it is, for people."""
        return (
            f"`peloton deploy {self.command}` of {self.user}, process {self.pid} on {self.host}, "
            f"has worked on it for {elapsed(max(now - self.since, 0.0))}"
        )

    def is_dead(self) -> bool:
        """Return whether it was a process of this machine that is not there any more."""
        if self.host != socket.gethostname():
            return False
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) > 1.0
        except psutil.NoSuchProcess:
            return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for the user's number
        return str(os.getuid())


class Store:
    """The record and the lock of one installation. Belongs to the event loop that opened it."""

    def __init__(self, connection: Connection, place: str) -> None:
        self._connection = connection
        self._place = place
        self._version = -1
        self._clock = SystemClock()

    @property
    def usable(self) -> bool:
        """Whether ZooKeeper is connected, as far as known."""
        return self._connection.is_connected

    async def load(self) -> Record:
        """Read the record; an empty one where there is none. Raises Refused, Unavailable."""
        try:
            node = await self._connection.get(self._record)
        except NotFound:
            self._version = -1
            return Record()
        self._version = node.version
        return from_json(node.value) if node.value else Record()

    async def save(self, record: Record) -> None:
        """Replace the record that was read last. Raises Conflict where another deployer has written since."""
        text = to_json(record)
        try:
            if self._version < 0:
                await self._connection.make(self._place)
                await self._connection.create(self._record, text)
                self._version = 0
            else:
                (stat,) = await self._connection.commit(put(self._record, text, self._version))
                self._version = stat.version
        except (Conflict, AlreadyExists, NotFound):
            raise Conflict("another deployer has changed the installation meanwhile: try again") from None

    async def remove(self) -> None:
        """Delete the record."""
        await self._connection.delete(self._record)
        self._version = -1

    async def holder(self) -> Holder | None:
        """Return who works on the installation; None where nobody does."""
        try:
            held = parse_json((await self._connection.get(self._lock)).value)
            return Holder(**held)
        except NotFound:
            return None
        except (ValueError, TypeError) as error:
            raise Refused(f"{self._lock} does not say who works on the installation: {error}") from None

    @asynccontextmanager
    async def locked(self, command: str) -> AsyncIterator[None]:
        """Hold the lock while the body runs. Raises Refused where another deployer holds it."""
        await self._connection.make(self._place)
        await self._take(Holder.this(command, self._now()))
        try:
            yield
        finally:
            with suppress(Unavailable):
                await self._connection.delete(self._lock)

    async def _take(self, holder: Holder) -> None:
        until = self._clock.monotonic() + 2 * self._connection.granted
        while True:
            try:
                await self._connection.create(self._lock, json.dumps(asdict(holder)).encode(), ephemeral=True)
                return
            except AlreadyExists:
                held = await self.holder()
            # The lock of a deployer that was killed is there until its session has ended.
            if held is not None and not (held.is_dead() and self._clock.monotonic() < until):
                raise Refused(
                    f"another deployer is at work: {held.told(self._now())}; wait until it has ended. "
                    f"Where it was killed, its lock ends by itself in {elapsed(self._connection.granted)}"
                )
            await asyncio.sleep(0.2)

    def _now(self) -> float:
        return self._clock.wall() / NANOSECONDS

    @property
    def _record(self) -> str:
        return f"{self._place}/record"

    @property
    def _lock(self) -> str:
        return f"{self._place}/deployer"


@asynccontextmanager
async def open_store(settings: ZooKeeperMembershipSettings, name: str) -> AsyncIterator[Store]:
    """Open the store of an installation while the body runs. Raises ConfigError, Unavailable."""
    connection, root = connection_of(settings)
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.open()
        except TimeoutError:
            raise Unavailable(connection.trouble()) from None
        yield Store(connection, f"{root}/deployments/{name}")
    finally:
        await connection.close()

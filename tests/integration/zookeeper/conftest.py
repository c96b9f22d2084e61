"""Memberships in a real ZooKeeper, each test below a node of its own."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Leadership, Member, Role
from peloton.membership.lease import Standing
from peloton.membership.zookeeper import ZooKeeperMembership
from tests.servers.zookeeper import ZooKeeperServer

Make = Callable[..., ZooKeeperMembership]
SECONDS = 60.0
"""Within this, what happens at all has happened, on a busy machine too."""


@pytest.fixture
def root() -> str:
    return f"/{uuid.uuid4().hex}"


@pytest.fixture
async def make(zookeeper: ZooKeeperServer, root: str) -> AsyncIterator[Make]:
    """Makes memberships, by their settings where they differ from the usual ones."""
    made: list[ZooKeeperMembership] = []

    def one(**settings: Any) -> ZooKeeperMembership:
        tree = {"servers": zookeeper.address, "root": root, **settings}
        found = membership(validated(DaemonSettings, {"membership": tree}, "test").membership)
        assert isinstance(found, ZooKeeperMembership)
        made.append(found)
        return found

    yield one
    for each in made:
        await each.close()


@pytest.fixture
def raw(zookeeper: ZooKeeperServer) -> Iterator[Any]:
    """A client as others use it."""
    client = KazooClient(zookeeper.address, timeout=4)
    client.start()
    yield client
    client.stop()
    client.close()


def member(name: str, role: Role = Role.RESMGR) -> Member:
    return Member(role, name, Address("here", "127.0.0.1", 1, 2))


def standing(leadership: Leadership) -> Standing:
    return leadership.standing(time.monotonic())


def expire(client: Any, server: ZooKeeperServer) -> None:
    """Whoever takes a session over and ends it, ends it for all."""
    thief = KazooClient(server.address, client_id=client.client_id)
    thief.start()
    thief.stop()
    thief.close()


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server whose machine is gone: who connects waits."""
    with ExitStack() as held:
        server = held.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):  # its queue is full then, and further calls are dropped
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


class Relay:
    """What clients take for the server: it passes all on, until it is cut."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._port = 0
        self.unanswered = 0
        """How many of the next connections are accepted and never answered."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Listen, the second time at the same port."""
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._listening.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections and refuse new ones, as a server that was killed."""
        assert self._listening is not None
        self._listening.close()
        for writer in self._open:
            writer.transport.abort()
        await self._listening.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.unanswered:
            self.unanswered -= 1
            self._open.add(writer)
            await reader.read()
            writer.close()
            return
        to_reader, to_writer = await asyncio.open_connection(*self._server)
        self._open |= {writer, to_writer}
        await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))
        self._open -= {writer, to_writer}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except OSError:
        pass  # it was cut; the other side is ended with it
    finally:
        writer.close()

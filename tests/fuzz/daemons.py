"""All daemons in one process: composed as their programs compose them, without ports and connections.

Calls among them and from tests go to the server's handlers as bytes, as gRPC gives them; each hop is the
program's own code, but for the transport. The membership is in memory, the store SQLite, Mesos is `Master`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc

import hostmgr.__main__ as hostmgr
import jobmgr.__main__ as jobmgr
import placement.__main__ as placement
import resmgr.__main__ as resmgr
from hostmgr.composition import mesos as hostmgr_mesos
from hostmgr.config import HostmgrSettings, MesosSettings
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.mesos.host_names import HostNames
from hostmgr.mesos.maintenance import MaintenanceCalls
from jobmgr.config import JobmgrSettings
from peloton.config.settings import DaemonSettings
from peloton.daemon.lifecycle import Daemon
from peloton.daemon.supervise import Supervisor
from peloton.membership.interface import Address, Group, Leadership, Member, Role
from peloton.membership.lease import Standing
from peloton.membership.local_shards import LocalShards
from peloton.membership.shard_registry import ShardRegistry
from peloton.model.cluster import UNNAMED
from peloton.rpc.server import RpcServer
from placement.config import PlacementSettings
from resmgr.config import ResmgrSettings
from storage.config import SqliteSettings
from tests.fuzz.master import Master
from tests.waiting import until

HOSTS = ("canary", "host0", "host1", "host2", "gpu0")
PORTS = {Role.JOBMGR: 1, Role.RESMGR: 2, Role.HOSTMGR: 3, Role.PLACEMENT: 4}
START_SECONDS = 60.0
Metadata = Sequence[tuple[str, str]]


class Aborted(grpc.aio.AbortError):
    """A servicer ended the call."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details


class Context:
    """What a handler has of its call."""

    def __init__(self, metadata: Metadata, seconds: float | None) -> None:
        self._metadata = tuple(metadata)
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._callbacks: list[Callable[[Any], None]] = []
        self._answered = False

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def peer(self) -> str:
        return "ipv4:127.0.0.1:40000"

    def set_trailing_metadata(self, metadata: Metadata) -> None: ...

    def set_code(self, code: grpc.StatusCode) -> None: ...

    def set_details(self, details: str) -> None: ...

    async def send_initial_metadata(self, metadata: Metadata) -> None: ...

    async def abort(self, code: grpc.StatusCode, details: str = "", metadata: Metadata = ()) -> None:
        raise Aborted(code, details)

    def time_remaining(self) -> float | None:
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def done(self) -> bool:
        """Return whether the caller got the answer."""
        return self._answered

    def end(self, answered: bool) -> None:
        self._answered = answered
        for callback in self._callbacks:
            callback(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. `messages` are the answers as bytes."""

    code: grpc.StatusCode
    details: str = ""
    messages: tuple[bytes, ...] = ()
    timed_out: bool = False
    """The caller gave up, as gRPC's deadlines do."""


async def called(
    server: RpcServer, path: str, raw: bytes, metadata: Metadata = (), seconds: float = 10.0, most: int = 5
) -> Outcome:
    """Call a method as gRPC would; of a stream, read `most` answers at most.

    Raises what escapes the server: gRPC would answer UNKNOWN.
    """
    handler = server.find(path)
    if handler is None:
        return Outcome(grpc.StatusCode.UNIMPLEMENTED)
    context = Context(metadata, seconds)
    answers: list[bytes] = []
    answered = False
    try:
        async with asyncio.timeout(seconds):
            if handler.response_streaming:
                stream = handler.unary_stream(raw, context)
                try:
                    async for answer in stream:
                        answers.append(_serialized(handler, answer))
                        if len(answers) >= most:
                            break
                finally:
                    await stream.aclose()
            else:
                answers.append(_serialized(handler, await handler.unary_unary(raw, context)))
        answered = True
    except Aborted as error:
        return Outcome(error.code, error.details)
    except TimeoutError:
        return Outcome(grpc.StatusCode.DEADLINE_EXCEEDED, f"no answer within {seconds:g} s", (), True)
    finally:
        context.end(answered)
    return Outcome(grpc.StatusCode.OK, "", tuple(answers))


def _serialized(handler: Any, answer: Any) -> bytes:
    serialize = handler.response_serializer
    return bytes(answer if serialize is None else serialize(answer))


class Channel:
    """A channel of gRPC to one server in this process."""

    def __init__(self, server: Callable[[], RpcServer | None], recorded: dict[str, list[bytes]]) -> None:
        self._server = server
        self._recorded = recorded

    def unary_unary(
        self,
        path: str,
        request_serializer: Callable[[Any], bytes],
        response_deserializer: Callable[[bytes], Any],
        **_: object,
    ) -> Any:
        async def call(request: Any, timeout: float | None = None, metadata: Metadata = ()) -> Any:
            raw = request_serializer(request)
            kept = self._recorded.setdefault(path, [])
            if len(kept) < 50:
                kept.append(raw)
            server = self._server()
            if server is None:
                raise _failure(grpc.StatusCode.UNAVAILABLE, "not there")
            # A task of its own: nothing of the caller's context goes along.
            outcome = await asyncio.create_task(called(server, path, raw, metadata, timeout or 60.0))
            if outcome.code is not grpc.StatusCode.OK:
                raise _failure(outcome.code, outcome.details)
            return response_deserializer(outcome.messages[0])

        return call

    def unary_stream(self, path: str, *_: object, **__: object) -> Any:
        def call(*_: object, **__: object) -> Any:
            raise NotImplementedError(f"no daemon calls {path}")

        return call


def _failure(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


class Network:
    """The servers by their addresses, and what daemons sent each other."""

    def __init__(self) -> None:
        self.servers: dict[str, RpcServer] = {}
        self.recorded: dict[str, list[bytes]] = {}
        self._channels: dict[str, Channel] = {}

    def to(self, target: str) -> Channel:
        if target not in self._channels:
            self._channels[target] = Channel(lambda: self.servers.get(target), self.recorded)
        return self._channels[target]

    def existing(self, target: str) -> Channel | None:
        return self._channels.get(target)


class Elected:
    """A term that lasts."""

    term = 1

    def standing(self, now: float) -> Standing:
        return Standing.HELD

    async def lost(self) -> None:
        await asyncio.Event().wait()

    async def resign(self) -> None: ...


class InMemory:
    """A membership whose first candidate of each role leads. The shards are in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._members: dict[Group, dict[str, Member]] = {}
        self._leaders: dict[Group, Address] = {}
        self._change = asyncio.Event()

    async def start(self) -> None: ...

    async def join(self, member: Member) -> None:
        self._members.setdefault(member.group, {})[member.id] = member
        self._changed()

    async def campaign(self, member: Member) -> Leadership:
        self._leaders[member.group] = member.address
        self._changed()
        return Elected()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def leader(self, role: Role, cluster: str = UNNAMED) -> Address | None:
        return self._leaders.get(Group(role, cluster))

    def members(self, role: Role, cluster: str = UNNAMED) -> Mapping[str, Member]:
        return self._members.get(Group(role, cluster), {})

    def shards(self) -> ShardRegistry:
        return LocalShards(self._folder)

    def clusters(self) -> Sequence[str]:
        return ()

    async def changed(self) -> None:
        await self._change.wait()

    def trouble(self) -> str:
        return ""

    async def close(self) -> None: ...


class Errors(logging.Handler):
    """Keeps what was logged with a traceback, or as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(logging.Formatter().format(record))

    def take(self) -> list[str]:
        found, self.found = self.found, []
        return found


@dataclass
class Daemons:
    """The running daemons."""

    network: Network
    master: Master
    errors: Errors
    servers: dict[Role, RpcServer] = field(default_factory=dict)
    scopes: dict[Role, Supervisor] = field(default_factory=dict)

    @property
    def recorded(self) -> Mapping[str, list[bytes]]:
        """Requests that the daemons sent each other, by path."""
        return self.network.recorded

    def server_of(self, path: str) -> RpcServer | None:
        """Return the server of a method."""
        return next((each for each in self.servers.values() if each.find(path) is not None), None)

    def ended(self) -> str:
        """Return why a daemon has ended; empty while all live."""
        for role, scope in self.scopes.items():
            if scope._failed.done():
                return f"{role.value}: {scope._failed.result()}"
        return ""


def _settings(folder: Path) -> Iterable[tuple[Role, DaemonSettings, Callable[[Any], None]]]:
    store = SqliteSettings(path=folder / "store.db")
    yield (
        Role.HOSTMGR,
        HostmgrSettings(
            storage=store,
            mesos=MesosSettings(master="127.0.0.1:1", agents_interval=1.0),
            client_placing_seconds=1.0,
            enable_host_pool=True,
            claim_grace=1.0,
            maintenance_interval=0.5,
        ),
        hostmgr.build,
    )
    yield Role.RESMGR, ResmgrSettings(storage=store), resmgr.build
    yield Role.JOBMGR, JobmgrSettings(storage=store, lanes=2, enable_secrets=True), jobmgr.build
    types: Any = ("batch", "stateless", "stateful", "daemon")
    yield Role.PLACEMENT, PlacementSettings(task_type=types), placement.build


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Daemons]:
    """Run all daemons while the body does. They serve when it begins."""
    network, shared, master, errors = Network(), InMemory(folder / "shards"), Master(HOSTS), Errors()
    found = Daemons(network, master, errors)

    def mesos(daemon: Any, framework_id: str, detector: Any, credentials: Any) -> MesosBackend:
        hosts, operator = HostNames(""), _any(master)
        return MesosBackend(
            lambda handler: _any(master.connect(handler)),
            AgentReader(operator, "peloton", hosts),
            MaintenanceCalls(operator, daemon.clock.wall, hosts),
            "peloton",
            hosts,
        )

    async with AsyncExitStack() as stack:
        logging.getLogger().addHandler(errors)
        stack.callback(logging.getLogger().removeHandler, errors)
        stack.enter_context(patch.object(hostmgr_mesos, "mesos_backend", mesos))
        for role, settings, build in _settings(folder):
            daemon = Daemon(settings, role)
            daemon.membership = shared
            daemon.clusters._membership = shared
            daemon._channels = _any(network)
            build(daemon)
            scope = await stack.enter_async_context(daemon._scopes.inner())
            found.scopes[role] = await _begin(daemon, network, scope)
            found.servers[role] = daemon.servers.rpc
        await until(lambda: all(map(_serves, found.servers.values())) or found.ended())
        assert not found.ended(), found.ended()
        yield found


async def _begin(daemon: Daemon[Any], network: Network, scope: Supervisor) -> Supervisor:
    """Do what `live` does, without ports."""
    daemon.servers.activate_standard()
    address = Address("localhost", "127.0.0.1", 0, PORTS[daemon.role])
    network.servers[address.target] = daemon.servers.rpc
    daemon._member = Member(daemon.role, daemon.id, address)
    assert daemon._life is not None
    await daemon.membership.join(daemon._member)
    scope.spawn("life", daemon._life())
    return scope


def _serves(server: RpcServer) -> bool:
    return all(server.serves(name) for name in server.names)


def _any(value: Any) -> Any:
    """Let a stand-in pass for what it stands in for."""
    return value

"""A daemon's life: settings, logs, HTTP, gRPC, membership, leadership, supervised tasks, an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

from peloton import log as logs
from peloton.clock import Clock, SystemClock
from peloton.config import DaemonSettings, parse_arguments
from peloton.errors import PelotonError
from peloton.http import HttpServer
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Leadership, Member, Role
from peloton.metrics import HEARTBEAT, LEADER
from peloton.rpc.caller import EPOCH, INSTANCE
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.server import RpcServer, Service
from peloton.supervise import Supervisor

S = TypeVar("S", bound=DaemonSettings)
Leading = Callable[[int], AbstractAsyncContextManager[None]]
Working = Callable[[], AbstractAsyncContextManager[None]]

HEARTBEAT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
log = logging.getLogger(__name__)


class Daemon(Generic[S]):
    """What the parts of a daemon share. Made by `run`; `build` tells it what to do."""

    def __init__(self, settings: S, role: Role) -> None:
        self.settings = settings
        self.role = role
        self.id = f"{settings.instance or role.value}-{uuid.uuid4().hex[:12]}"
        self.clock: Clock = SystemClock()
        self.membership = membership(settings.membership)
        self.rpc = RpcServer(self._who_leads)
        self.http = HttpServer(self.unhealthy)
        self.checks: list[Callable[[], str]] = []
        """Each tells what is wrong, empty where all is well; /health is OK when none has anything to say."""
        self._channels = Channels()
        self._scopes: list[Supervisor] = []
        self._life: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._term = 0

    # What build() calls, once.

    def lead(self, leading: Leading, services: Iterable[str] = ()) -> None:
        """Campaign for ever; `leading(term)` is entered when elected and left on stepping down.

        `services` are the full names answered UNAVAILABLE while another instance leads.
        """
        self.rpc.announce(services)
        self._life = lambda: self._campaign(leading)

    def work(self, working: Working) -> None:
        """Work without election."""
        self._life = lambda: self._work(working)

    # What the parts call.

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Supervise a background task until this leadership, or the daemon, ends."""
        self._scopes[-1].spawn(name, work)

    @asynccontextmanager
    async def serving(self, *services: Service) -> AsyncIterator[None]:
        self.rpc.activate(services)
        try:
            yield
        finally:
            self.rpc.deactivate(services)

    def client(self, role: Role, stub: type) -> LeaderClient:
        """A client that follows the leader of `role`, calling as this instance in its present term."""
        metadata = [(INSTANCE, f"{self.role.value}/{self.id}")]
        if self._term:
            metadata.append((EPOCH, f"{self.role.value}:{self._term}"))
        metadata += [
            ("rpc-caller", self.role.service),
            ("rpc-service", role.service),
            ("rpc-encoding", "proto"),
        ]
        return LeaderClient(self.membership, self._channels, role, stub, tuple(metadata))

    def unhealthy(self) -> str:
        return "; ".join(wrong for check in self.checks if (wrong := check()))

    # Its life.

    async def live(self) -> str:
        """Run until told to stop; returns why it ended, empty for an orderly end."""
        settings, stop = self.settings, asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        http_port = self.http.bind(settings.host, settings.http_port)
        grpc_port = await self.rpc.start(settings.host, settings.grpc_port)
        self._member = Member(
            self.role, self.id, Address(socket.gethostname(), settings.host, http_port, grpc_port)
        )
        await self.membership.start()
        await self.membership.join(self._member)
        scope = Supervisor()
        self._scopes.append(scope)
        scope.spawn("http", self.http.serve())
        scope.spawn("heartbeat", _heartbeat())
        assert self._life is not None, "build() must call lead() or work()"
        scope.spawn("life", self._life())
        log.info("%s %s: gRPC %s:%d, HTTP %d", self.role.value, self.id, settings.host, grpc_port, http_port)
        why = await _first(stop, scope)
        await self._end(scope)
        return why

    async def _end(self, scope: Supervisor) -> None:
        self.http.stop()
        await scope.close()
        await self.rpc.stop()
        await self._channels.close()
        await self.membership.close()

    async def _work(self, working: Working) -> None:
        async with working():
            await asyncio.Event().wait()

    async def _campaign(self, leading: Leading) -> None:
        pause = FIRST_PAUSE
        while True:
            leadership = await self.membership.campaign(self._member)
            try:
                if await self._reign(leadership, leading):
                    pause = FIRST_PAUSE
            finally:
                await leadership.resign()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _reign(self, leadership: Leadership, leading: Leading) -> bool:
        """One term; whether it began well. A start that fails gives leadership up again."""
        self._term = leadership.term
        scope = Supervisor()
        self._scopes.append(scope)
        context = leading(leadership.term)
        try:
            try:
                await context.__aenter__()
            except (PelotonError, OSError) as error:
                log.error("cannot lead in term %d: %s", leadership.term, error)
                return False
            log.info("leading in term %d", leadership.term)
            LEADER.set(1)
            try:
                await self._until_over(leadership, scope)
            finally:
                await scope.close()
                await context.__aexit__(None, None, None)
            return True
        finally:
            LEADER.set(0)
            await scope.close()
            self._scopes.remove(scope)
            self._term = 0

    async def _until_over(self, leadership: Leadership, scope: Supervisor) -> None:
        """Returns when leadership is lost; raises where a background task failed: that ends the daemon."""
        lost = asyncio.create_task(leadership.lost())
        failed = asyncio.create_task(scope.failed())
        try:
            await asyncio.wait({lost, failed}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                raise PelotonError(failed.result())
            log.warning("leadership of term %d is lost", leadership.term)
        finally:
            lost.cancel()
            failed.cancel()

    def _who_leads(self) -> str:
        leader = self.membership.leader(self.role)
        if leader is None:
            return f"no {self.role.value} leads at the moment"
        return f"this {self.role.value} does not lead; the leader is at {leader.target}"


async def _first(stop: asyncio.Event, scope: Supervisor) -> str:
    stopped = asyncio.create_task(stop.wait())
    failed = asyncio.create_task(scope.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    why = failed.result() if failed.done() else ""
    stopped.cancel()
    failed.cancel()
    return why


async def _heartbeat() -> None:
    while True:
        HEARTBEAT.set(1)
        await asyncio.sleep(HEARTBEAT_SECONDS)


def run(
    cls: type[S], role: Role, build: Callable[[Daemon[S]], None], argv: Sequence[str] | None = None
) -> int:
    """Main of a daemon: the exit code, 0 after an orderly end, 1 otherwise with one clear line on stderr."""
    try:
        settings = parse_arguments(cls, f"peloton-{role.value}", argv)
    except PelotonError as error:
        print(f"peloton-{role.value}: {error}", file=sys.stderr)
        return 1
    logs.set_up(settings.debug)

    async def main() -> str:
        daemon = Daemon(settings, role)
        build(daemon)
        return await daemon.live()

    import uvloop

    try:
        why = uvloop.run(main())
    except PelotonError as error:
        why = str(error)
    if why:
        print(f"peloton-{role.value}: {why}", file=sys.stderr)
    return 1 if why else 0

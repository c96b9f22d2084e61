"""The lifecycle of a daemon: settings, logs, servers, membership, leadership, tasks, orderly shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any, Generic, TypeVar

from peloton import __version__
from peloton.clock import Clock, SystemClock
from peloton.config.arguments import parse_arguments
from peloton.config.private import keep_private
from peloton.config.settings import DaemonSettings
from peloton.daemon import log as logs
from peloton.daemon import tracing
from peloton.daemon.descriptors import raise_descriptor_limit
from peloton.daemon.metrics import HEALTHY, HEARTBEAT
from peloton.daemon.servers import Servers
from peloton.daemon.supervise import Scopes, Supervisor
from peloton.daemon.terms import Leading, Standby, Terms
from peloton.daemon.tracing import TRACES
from peloton.errors import PelotonError
from peloton.identity.door import sent_token
from peloton.membership.addresses import advertised
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Group, Member, Role
from peloton.model.cluster import UNNAMED
from peloton.rpc.caller import EPOCH, INSTANCE, TOKEN, VERSION, Metadata
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.cluster_rules import RULES
from peloton.rpc.clusters import ClusterClient, Clusters
from peloton.rpc.intake import health_probe
from peloton.rpc.server import Service

S = TypeVar("S", bound=DaemonSettings)
Working = Callable[[], AbstractAsyncContextManager[None]]

HEARTBEAT_SECONDS = 5.0
log = logging.getLogger(__name__)


class Daemon(Generic[S]):
    """The process of a daemon, shared by its parts. `run` makes it and `build` configures it."""

    def __init__(self, settings: S, role: Role) -> None:
        self.settings = settings
        self.role = role
        self.cluster = UNNAMED
        """The Mesos cluster that a host manager serves; set by `build`."""
        self.id = f"{settings.instance or role.value}-{uuid.uuid4().hex[:12]}"
        self.clock: Clock = SystemClock()
        self.membership = membership(settings.membership)
        self.clusters = Clusters(self.membership)
        self._token = sent_token(settings.auth)
        self.servers = Servers(settings, self.clock, self.unhealthy, self._who_leads, self._current_leader)
        self.problems = self.servers.problems
        """What is told by ListProblems, though /health is OK."""
        self.checks: list[Callable[[], str]] = []
        """Each returns what is wrong, empty if nothing; /health is OK while all return empty texts."""
        HEALTHY.set_function(lambda: 0.0 if self.unhealthy() else 1.0)
        self._channels = Channels(self.servers.tls)
        self._scopes = Scopes()
        self._terms = Terms(role, self.clock, self._scopes)
        self._life: Callable[[], Coroutine[Any, Any, None]] | None = None

    # For build(), which calls one of these once.

    def lead(self, leading: Leading, services: Iterable[str] = (), standby: Standby = nullcontext) -> None:
        """Campaign without end; enter `leading(term)` when elected, and leave it on stepping down.

        `services` are the full names answered UNAVAILABLE while another instance leads. `standby` is entered
        before the first campaign and left after the last term: it prepares what a term needs to begin at
        once, and closes what takes long without delaying the next leader.
        """
        self.servers.rpc.announce(services)
        self._terms.elected = True
        self.checks.append(self._no_leader)
        self._life = lambda: self._terms.campaign(self.membership, self._member, leading, standby)

    def work(self, working: Working) -> None:
        """Work without election."""
        self._life = lambda: self._work(working)

    # For the parts of the daemon.

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Supervise a background task until this leadership, or the daemon, ends."""
        self._scopes.spawn(name, work)

    def before_stepping_down(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Call a function when this term ends in order, as `Terms.before_stepping_down` describes."""
        self._terms.before_stepping_down(finish)

    @asynccontextmanager
    async def serving(self, *services: Service) -> AsyncIterator[None]:
        """Serve services while the body runs."""
        self.servers.rpc.activate(services, self.fence)
        try:
            yield
        finally:
            self.servers.rpc.deactivate(services)

    @property
    def group(self) -> Group:
        """Return the processes of which one leads, to which this one belongs."""
        return Group(self.role, self.cluster)

    def client(
        self,
        role: Role,
        cluster: str = UNNAMED,
        shards: Callable[[], str] | None = None,
        fence: Callable[[], None] | None = None,
    ) -> LeaderClient:
        """Return a client that follows the leader of `role`, and calls as this instance in its term.

        `cluster` is the Mesos cluster whose host manager is called. `shards` returns the claim to shards of
        jobs (`peloton.sharding.claims`) that a call makes. With a `fence` of its own, the client calls
        whether this instance leads or not.
        """
        metadata = list(self.called_by())
        if fence is None and (leadership := self._terms.leadership) is not None:
            metadata.append((EPOCH, f"{self.group}:{leadership.term}"))
        metadata += [
            ("rpc-caller", self.role.service),
            ("rpc-service", role.service),
            ("rpc-encoding", "proto"),
        ]
        return LeaderClient(
            self.membership, self._channels, role, tuple(metadata), fence or self.fence, cluster, shards
        )

    def hostmgrs(
        self, shards: Callable[[], str] | None = None, fence: Callable[[], None] | None = None
    ) -> ClusterClient:
        """Return a client that calls the leading host managers of all Mesos clusters, as `client` does."""
        return ClusterClient(
            self.clusters, lambda cluster: self.client(Role.HOSTMGR, cluster, shards, fence), RULES
        )

    def called_by(self) -> Metadata:
        """Return the metadata by which other daemons know this one, whether it leads or not."""
        own = ((INSTANCE, f"{self.role.value}/{self.id}"), (VERSION, __version__))
        return (*own, (TOKEN, self._token)) if self._token else own

    @property
    def leads(self) -> bool:
        """Whether this instance is elected, though its term may still be about to begin."""
        return self._terms.leadership is not None

    @property
    def fence(self) -> Callable[[], None]:
        """Return a check to call before any lasting effect of the present term: see `Terms.fence`."""
        return self._terms.fence

    @property
    def give_up(self) -> Callable[[str], None]:
        """Return a function that ends the present term: see `Terms.give_up`."""
        return self._terms.give_up

    @property
    def member(self) -> Member:
        """Return this process as the others see it, once it listens."""
        return self._member

    def unhealthy(self) -> str:
        """Return what is wrong, empty if nothing."""
        return "; ".join(wrong for check in self.checks if (wrong := check()))

    # Lifecycle.

    def trace(self) -> None:
        """Trace jobs where the settings say so. Raises ConfigError."""
        settings = self.settings
        described = {
            "service.name": self.role.service,
            "service.instance.id": self.id,
            "service.version": __version__,
            "service.namespace": settings.cluster or "peloton",
        }
        tracing.start(settings.tracing, described)

    async def live(self) -> str:
        """Run until told to stop; return why it ended, empty for an orderly end."""
        settings, stop = self.settings, asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        http_port, grpc_port = await self.servers.listen()
        ip = advertised(settings.host, settings.advertise)
        self.servers.warn_if_unreachable(ip)
        self._member = Member(
            self.role, self.id, Address(socket.gethostname(), ip, http_port, grpc_port), self.cluster
        )
        async with self._scopes.inner() as scope:
            scope.spawn("http", self.servers.http.serve())
            scope.spawn("heartbeat", _heartbeat())
            scope.spawn("intake", self._measure_intake())
            if self.servers.door is not None:
                scope.spawn("users", self.servers.door.follow())
            try:
                why = await _first(stop, scope, self._enter(scope))
            finally:
                await self._end(scope)
        return why

    async def _enter(self, scope: Supervisor) -> None:
        """Join the others, and begin the work of this daemon."""
        assert self._life is not None, "build() must call lead() or work()"
        with self.checked(lambda: self.membership.trouble() or "about to join the membership"):
            await self.membership.start()
            await self.membership.join(self._member)
        self.checks.append(self.membership.trouble)
        scope.spawn("leaders", self._channels.follow(self.membership))
        scope.spawn("life", self._life())
        address = self._member.address
        log.info("%s %s: gRPC %s, HTTP %d", self.role.value, self.id, address.target, address.http)

    async def _measure_intake(self) -> None:
        """Measure how long new calls wait, whenever that counts, by a connection of its own."""
        channel = self._channels.alone(self._member.address.target)
        try:
            await self.servers.intake.measure(health_probe(channel))
        finally:
            await channel.close()

    async def _end(self, scope: Supervisor) -> None:
        self.servers.http.stop()
        await scope.close()
        await self.servers.rpc.stop()
        await self._channels.close()
        await self.membership.close()
        await asyncio.to_thread(TRACES.end)

    @contextmanager
    def checked(self, check: Callable[[], str]) -> Iterator[None]:
        """Let /health report what a check returns while the body runs."""
        self.checks.append(check)
        try:
            yield
        finally:
            self.checks.remove(check)

    async def _work(self, working: Working) -> None:
        async with working():
            await asyncio.Event().wait()

    def _who_leads(self) -> str:
        if not self._other_leads():
            trouble = self._terms.trouble()
            return f"no {self.role.value} leads at the moment" + (f": this one {trouble}" if trouble else "")
        leader = self.membership.leader(*self.group)
        assert leader is not None
        return f"this {self.role.value} does not lead; the leader is at {leader.target}"

    def _other_leads(self) -> bool:
        leader = self.membership.leader(*self.group)
        return leader is not None and leader != self._member.address

    def _no_leader(self) -> str:
        """Return why neither this instance nor another one leads, where this one has tried."""
        return "" if self._other_leads() else self._terms.trouble()

    def _current_leader(self) -> str:
        """Return what /health adds: the leader, for a follower; for a leader what its terms came to."""
        if not self._terms.elected:
            return ""
        return self._who_leads() if self._terms.leadership is None else self._terms.remark()


async def _first(stop: asyncio.Event, scope: Supervisor, entering: Coroutine[Any, Any, None]) -> str:
    """Return why the daemon ends, empty where it was told to. Raises what `entering` raises."""
    stopped = asyncio.create_task(stop.wait())
    failed = asyncio.create_task(scope.failed())
    entered = asyncio.create_task(entering)
    try:
        done, _ = await asyncio.wait({stopped, failed, entered}, return_when=asyncio.FIRST_COMPLETED)
        if entered in done:
            entered.result()
            await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
        return failed.result() if failed.done() else ""
    finally:
        for task in (stopped, failed, entered):
            task.cancel()
        await asyncio.gather(stopped, failed, entered, return_exceptions=True)


async def _heartbeat() -> None:
    while True:
        HEARTBEAT.set(1)
        await asyncio.sleep(HEARTBEAT_SECONDS)


def run(
    cls: type[S], role: Role, build: Callable[[Daemon[S]], None], argv: Sequence[str] | None = None
) -> int:
    """Run a daemon; return its exit code, 0 after an orderly end, else 1 with one clear line on stderr.

    With --check it reads the settings and the files that they name, prints `ok` and ends without connecting
    to anything.
    """
    try:
        settings, only_check = parse_arguments(cls, f"peloton-{role.value}", argv)
    except PelotonError as error:
        print(f"peloton-{role.value}: {error}", file=sys.stderr)
        return 1
    logs.set_up(settings.debug)
    keep_private()
    raise_descriptor_limit()

    async def main() -> str:
        daemon = Daemon(settings, role)
        build(daemon)
        daemon.trace()
        if only_check:
            print("ok")
            return ""
        return await daemon.live()

    import uvloop

    try:
        why = uvloop.run(main())
    except PelotonError as error:
        why = str(error)
    if why:
        print(f"peloton-{role.value}: {why}", file=sys.stderr)
    return 1 if why else 0

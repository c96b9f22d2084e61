"""The lifecycle of a daemon: settings, logs, HTTP, gRPC, membership, leadership, tasks, orderly shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from typing import Any, Generic, TypeVar

from peloton import __version__
from peloton.backoff import Backoff
from peloton.clock import Clock, SystemClock
from peloton.config.private import keep_private
from peloton.config.settings import (
    DaemonSettings,
    ZooKeeperMembershipSettings,
    is_loopback,
    parse_arguments,
)
from peloton.daemon import log as logs
from peloton.daemon import tracing
from peloton.daemon.http import HttpServer
from peloton.daemon.metrics import HEALTHY, HEARTBEAT, LEADER
from peloton.daemon.supervise import Supervisor
from peloton.daemon.tracing import TRACES
from peloton.errors import Fenced, PelotonError, Refused, Unavailable
from peloton.identity.door import Door, sent_token
from peloton.membership.addresses import advertised, unreachable
from peloton.membership.factory import membership
from peloton.membership.interface import Address, Group, Leadership, Member, Role
from peloton.membership.lease import Standing
from peloton.model.cluster import UNNAMED
from peloton.rpc.access import access
from peloton.rpc.audit import audit_log
from peloton.rpc.caller import EPOCH, INSTANCE, TOKEN
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.cluster_rules import RULES
from peloton.rpc.clusters import ClusterClient, Clusters
from peloton.rpc.fairness import Fairness
from peloton.rpc.gate import Gate
from peloton.rpc.limits import PrincipalRates, RateLimits
from peloton.rpc.server import RpcServer, Service
from peloton.rpc.standard import health, reflection
from peloton.rpc.tls import tls_of

S = TypeVar("S", bound=DaemonSettings)
Leading = Callable[[int], AbstractAsyncContextManager[None]]
Working = Callable[[], AbstractAsyncContextManager[None]]
Standby = Callable[[], AbstractAsyncContextManager[None]]

HEARTBEAT_SECONDS = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between a failed attempt to lead and the next one."""
STEP_DOWN_SECONDS = 15.0
EXPOSED = "listens at %s and asks nobody who they are (auth.type is NOOP, insecure is true)"
FINISH_SECONDS = 8.0
"""Part of these seconds in which a term may finish what was begun."""
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
        auth, limits = settings.auth, settings.rate_limit
        self._token = sent_token(auth)
        self.door = None if auth.type == "NOOP" else Door(auth, settings.tls.client_certificates)
        """What asks callers who they are; None where nobody is asked."""
        self.audit = audit_log(settings.audit, self.clock.wall)
        """What users have changed; None where it is not written."""
        rates = PrincipalRates(limits) if PrincipalRates.needed(limits) else None
        fairness = Fairness(settings.call_limits, rates, self.door is not None, self.audit)
        shared = RateLimits(limits) if RateLimits.needed(limits) else None
        gate = Gate(self.door, shared, self.audit, fairness.pacer)
        self.rpc = RpcServer(
            self._who_leads,
            [gate] if gate.needed else [],
            self.audit,
            fairness,
            settings.call_limits.connection_streams,
        )
        self.tls = tls_of(settings.tls)
        """What encrypts calls; None where nothing does."""
        https = None if self.tls is None else self.tls.http()
        self.http = HttpServer(self.unhealthy, self._remarks, self.door is not None, https)
        self.checks: list[Callable[[], str]] = []
        """Each returns what is wrong, empty if nothing; /health is OK while all return empty texts."""
        HEALTHY.set_function(lambda: 0.0 if self.unhealthy() else 1.0)
        self._channels = Channels(self.tls)
        self._scopes: list[Supervisor] = []
        self._life: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._leadership: Leadership | None = None
        self._elected = False
        self._finish: Callable[[], Awaitable[None]] | None = None

    # For build(), which calls one of these once.

    def lead(self, leading: Leading, services: Iterable[str] = (), standby: Standby = nullcontext) -> None:
        """Campaign without end; enter `leading(term)` when elected, and leave it on stepping down.

        `services` are the full names answered UNAVAILABLE while another instance leads. `standby` is entered
        before the first campaign and left after the last term: it prepares what a term needs to begin at
        once, and closes what takes long without delaying the next leader.
        """
        self.rpc.announce(services)
        self._elected = True
        self._life = lambda: self._campaign(leading, standby)

    def work(self, working: Working) -> None:
        """Work without election."""
        self._life = lambda: self._work(working)

    # For the parts of the daemon.

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Supervise a background task until this leadership, or the daemon, ends."""
        self._scopes[-1].spawn(name, work)

    def before_stepping_down(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Call a function when this term ends in order, before the background tasks are ended.

        It may take no longer than FINISH_SECONDS, and is skipped where leadership is lost.
        """
        self._finish = finish

    @asynccontextmanager
    async def serving(self, *services: Service) -> AsyncIterator[None]:
        """Serve services while the body runs."""
        self.rpc.activate(services, self.fence)
        try:
            yield
        finally:
            self.rpc.deactivate(services)

    @property
    def group(self) -> Group:
        """Return the processes of which one leads, to which this one belongs."""
        return Group(self.role, self.cluster)

    def client(self, role: Role, stub: type, cluster: str = UNNAMED) -> LeaderClient:
        """Return a client that follows the leader of `role`, and calls as this instance in its term.

        `cluster` is the Mesos cluster whose host manager is called.
        """
        metadata = [(INSTANCE, f"{self.role.value}/{self.id}")]
        if self._leadership is not None:
            metadata.append((EPOCH, f"{self.group}:{self._leadership.term}"))
        if self._token:
            metadata.append((TOKEN, self._token))
        metadata += [
            ("rpc-caller", self.role.service),
            ("rpc-service", role.service),
            ("rpc-encoding", "proto"),
        ]
        return LeaderClient(self.membership, self._channels, role, stub, tuple(metadata), self.fence, cluster)

    def hostmgrs(self, stub: type) -> ClusterClient:
        """Return a client that calls the leading host managers of all Mesos clusters."""
        return ClusterClient(self.clusters, lambda cluster: self.client(Role.HOSTMGR, stub, cluster), RULES)

    @property
    def fence(self) -> Callable[[], None]:
        """Return a check to call before any lasting effect of the present term.

        It raises Fenced where the term is over, even if another has begun here since, and Unavailable while
        that is unknown. It passes where no election takes place.
        """
        return partial(self._check, self._leadership)

    def _check(self, leadership: Leadership | None) -> None:
        if leadership is None:
            if self._elected:
                raise Fenced(f"this {self.role.value} does not lead")
            return
        standing = leadership.standing(self.clock.monotonic())
        if leadership is not self._leadership or standing is Standing.OVER:
            raise Fenced(f"this {self.role.value} led in term {leadership.term}: that is over")
        if standing is Standing.SUSPENDED:
            raise Unavailable(f"this {self.role.value} cannot tell whether it still leads")

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
        self._warn_of_exposure()
        http_port = self.http.bind(settings.host, settings.http_port)
        grpc_port = await self._listen()
        ip = advertised(settings.host, settings.advertise)
        self._warn_if_unreachable(ip)
        self._member = Member(
            self.role, self.id, Address(socket.gethostname(), ip, http_port, grpc_port), self.cluster
        )
        scope = Supervisor()
        self._scopes.append(scope)
        scope.spawn("http", self.http.serve())
        scope.spawn("heartbeat", _heartbeat())
        if self.door is not None:
            scope.spawn("users", self.door.follow())
        try:
            why = await _first(stop, scope, self._enter(scope))
        finally:
            await self._end(scope)
        return why

    async def _listen(self) -> int:
        """Open the gRPC port, with the services that every daemon has."""
        settings, rpc = self.settings, self.rpc
        rpc.activate([access(self.door)])
        if settings.grpc_health:
            rpc.activate([health(self.unhealthy, rpc.serves)])
        further = reflection(rpc.names) if settings.grpc_reflection else ()
        credentials = None if self.tls is None else self.tls.server(settings.tls.client_certificates)
        return await rpc.start(settings.host, settings.grpc_port, further, credentials)

    def _warn_of_exposure(self) -> None:
        settings = self.settings
        if settings.exposed:
            log.warning("INSECURE: %s", EXPOSED % settings.host)
        elif self.tls is None and not is_loopback(settings.host):
            log.warning(
                "%s is beyond loopback, and there is no TLS: passwords, tokens and answers are not encrypted",
                settings.host,
            )

    def _warn_if_unreachable(self, ip: str) -> None:
        shared = self.settings.membership
        if isinstance(shared, ZooKeeperMembershipSettings) and unreachable(ip, shared.servers):
            log.warning(
                "this daemon is announced at %s, which other hosts cannot reach: set host or advertise",
                ip,
            )

    async def _enter(self, scope: Supervisor) -> None:
        """Join the others, and begin the work of this daemon."""
        assert self._life is not None, "build() must call lead() or work()"
        with self._checked(lambda: self.membership.trouble() or "about to join the membership"):
            await self.membership.start()
            await self.membership.join(self._member)
        self.checks.append(self.membership.trouble)
        scope.spawn("leaders", self._channels.follow(self.membership))
        scope.spawn("life", self._life())
        address = self._member.address
        log.info("%s %s: gRPC %s, HTTP %d", self.role.value, self.id, address.target, address.http)

    async def _end(self, scope: Supervisor) -> None:
        self.http.stop()
        await scope.close()
        await self.rpc.stop()
        await self._channels.close()
        await self.membership.close()
        await asyncio.to_thread(TRACES.end)

    @contextmanager
    def _checked(self, check: Callable[[], str]) -> Iterator[None]:
        self.checks.append(check)
        try:
            yield
        finally:
            self.checks.remove(check)

    async def _work(self, working: Working) -> None:
        async with working():
            await asyncio.Event().wait()

    async def _campaign(self, leading: Leading, standby: Standby) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        async with standby():
            while True:
                leadership = await self.membership.campaign(self._member)
                try:
                    if await self._lead_term(leadership, leading):
                        backoff.reset()
                finally:
                    await leadership.resign()
                pause = backoff.next()
                log.info("campaigning again in %.1f s", pause)
                await asyncio.sleep(pause)

    async def _lead_term(self, leadership: Leadership, leading: Leading) -> bool:
        """Lead for one term; return whether it started. A start that fails gives up leadership."""
        self._leadership, began = leadership, asyncio.Event()
        lost = asyncio.create_task(leadership.lost())
        term = asyncio.create_task(self._run_term(leading(leadership.term), leadership.term, began))
        try:
            await asyncio.wait({lost, term}, return_when=asyncio.FIRST_COMPLETED)
            held = leadership.standing(self.clock.monotonic()) is Standing.HELD and not lost.done()
        finally:
            lost.cancel()
            await _cancel(term)
            self._leadership = None
        error = None if term.cancelled() else term.exception()
        if error is not None and held:
            raise error
        if not held:
            log.warning("leadership of term %d is lost%s", leadership.term, f": {error}" if error else "")
        return began.is_set()

    async def _run_term(
        self, leading: AbstractAsyncContextManager[None], term: int, began: asyncio.Event
    ) -> None:
        """Lead. Raises where a background task failed: that ends the daemon, unless leadership is lost."""
        scope = Supervisor()
        self._scopes.append(scope)
        try:
            async with AsyncExitStack() as stack:
                try:
                    await stack.enter_async_context(leading)
                except Refused:  # wrong credentials, a newer schema: no later try will succeed
                    raise
                except (PelotonError, OSError) as error:
                    log.error("cannot lead in term %d: %s", term, error)
                    return
                stack.push_async_callback(scope.close)
                log.info("leading in term %d", term)
                LEADER.set(1)
                began.set()
                try:
                    raise PelotonError(await scope.failed())
                except asyncio.CancelledError:
                    await self._finish_term()
                    raise
        finally:
            self._finish = None
            LEADER.set(0)
            await scope.close()
            self._scopes.remove(scope)

    async def _finish_term(self) -> None:
        """Call the function given to `before_stepping_down`, unless leadership is lost."""
        if self._finish is None:
            return
        try:
            self.fence()
            async with asyncio.timeout(FINISH_SECONDS):
                await self._finish()
        except (PelotonError, TimeoutError) as error:
            log.warning("not all that was begun is finished: %s", error or "out of time")

    def _who_leads(self) -> str:
        leader = self.membership.leader(*self.group)
        if leader is None or leader == self._member.address:
            return f"no {self.role.value} leads at the moment"
        return f"this {self.role.value} does not lead; the leader is at {leader.target}"

    def _remarks(self) -> str:
        """Return what /health adds to its OK."""
        exposed = f"INSECURE: {EXPOSED % self.settings.host}" if self.settings.exposed else ""
        users = self.door.trouble if self.door is not None else ""
        certificates = self.tls.trouble if self.tls is not None else ""
        return "\n".join(filter(None, (self._current_leader(), exposed, users, certificates)))

    def _current_leader(self) -> str:
        """Return the leader for /health, empty for a leader and for a daemon without election."""
        return self._who_leads() if self._elected and self._leadership is None else ""


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


async def _cancel(term: asyncio.Task[None]) -> None:
    """Cancel a task.

    Raises PelotonError where the leader's role cannot be left; the end of the process leaves it then.
    """
    term.cancel()
    _, left = await asyncio.wait({term}, timeout=STEP_DOWN_SECONDS)
    if left:
        raise PelotonError(f"could not leave the leader's role in {STEP_DOWN_SECONDS:g} s")


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

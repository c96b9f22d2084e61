"""A job manager that shares the work: it owns a part of the jobs while it runs, and answers all calls.

It owns by a session of its own, whether it leads or not. The one that leads decides who is to own what, and
does what concerns no single job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from jobmgr.clients.hostmgr import HostmgrClient
from jobmgr.clients.resmgr import ResmgrClient
from jobmgr.config import JobmgrSettings
from jobmgr.drivers.accounting import Accountant, Sharing
from jobmgr.drivers.options import Called
from jobmgr.drivers.pod_event_expiry import expire_pod_events
from jobmgr.drivers.start import start_drivers
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import HeldShards, Opened
from jobmgr.engine.shard_work import EngineShards
from jobmgr.engine.task_access import TaskAccess
from jobmgr.engine.transient import TRANSIENT, backoff
from jobmgr.engine.workflows import Workflows
from jobmgr.parts import driver_options, follow_engine, knowing_runs, served, tell_problems
from jobmgr.services.common.passing import Passing
from jobmgr.services.private.elsewhere import OtherOwners
from jobmgr.services.private.found_jobs import FoundJobs
from jobmgr.services.private.others_problems import OthersProblems
from jobmgr.services.v1alpha.merged_watch import merged_watch
from jobmgr.services.v1alpha.watches import Watches
from peloton.config.agents import AgentAccess
from peloton.daemon.lifecycle import Daemon
from peloton.daemon.shard_owner import ShardOwner
from peloton.daemon.supervise import Supervisor
from peloton.errors import Fenced, PelotonError, Unavailable
from peloton.membership.interface import Role
from peloton.membership.shard_registry import ShardRegistry
from peloton.model.ids import JobId
from peloton.model.shard import SHARDS, shard_of
from peloton.rpc.peers import Peers
from storage.selection.factory import Stores

LEAVE_SECONDS = 8.0
"""How long shards are handed over for, in an orderly end."""
T = TypeVar("T")
log = logging.getLogger(__name__)


class Share:
    """The part of the work that this process does."""

    def __init__(
        self,
        daemon: Daemon[JobmgrSettings],
        stores: Stores,
        registry: ShardRegistry,
        agents: AgentAccess,
        access: TaskAccess,
    ) -> None:
        self._daemon = daemon
        self._stores = stores
        self._registry = registry
        self._agents = agents
        self._access = access
        self._term: int | None = None
        """The term in which this instance leads; None where another one does."""
        self._owner: ShardOwner | None = None
        self._written: Callable[[], Awaitable[None]] = _nothing
        """Waits until watchers know what was handed over."""
        daemon.checks.append(stores.trouble)
        if daemon.servers.door is not None:
            daemon.servers.door.believe_job_managers()

    # --- the leader's part ---

    @asynccontextmanager
    async def leading(self, term: int) -> AsyncIterator[None]:
        """Decide who owns what, and do what concerns no single job, in one term."""
        daemon, settings = self._daemon, self._daemon.settings
        fence = daemon.fence
        async with AsyncExitStack() as stack:
            # A handle of its own: what this one writes is fenced by the term, the other one's by shards.
            store = await self._stores.open()
            stack.push_async_callback(store.close)
            await store.begin_term(Role.JOBMGR.value, term, fence)
            expiring = expire_pod_events(store, daemon.clock, settings.event_days, settings.expiry)
            daemon.spawn("old events", expiring)
            self._term = term
            stack.callback(self._lead_no_more)
            if self._owner is not None:
                self._owner.assign_again()
            yield

    def _lead_no_more(self) -> None:
        self._term = None

    def _assigns(self) -> int | None:
        """Return the term in which this instance assigns; None where it does not."""
        if self._term is None:
            return None
        try:
            self._daemon.fence()
        except (Fenced, Unavailable):
            return None
        return self._term

    # --- the part of each ---

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Own shards and serve calls while the body runs. At its end all shards are handed over."""
        daemon, registry = self._daemon, self._registry
        async with AsyncExitStack() as stack:
            stack.push_async_callback(registry.close)
            await stack.enter_async_context(self._stores.standby(daemon.spawn))
            store = await _tried("the store is not open yet", self._stores.open)
            stack.push_async_callback(store.close)
            await _tried("no shards yet", lambda: registry.start(SHARDS))
            scope = Supervisor()
            stack.push_async_callback(scope.close)
            engine = Engine(
                store,
                daemon.clock,
                daemon.settings.goal_state,
                daemon.settings.lanes,
                self._fence,
                shards=HeldShards(whole=False),
            )
            follow_engine(daemon, engine)
            work = EngineShards(engine, self._give_up)
            owner = ShardOwner(registry, daemon.member, work, daemon.clock, self._assigns)
            self._owner = owner
            await _tried("the locked calls are not known yet", engine.lockdown.load)
            finish = await self._start(scope, engine, owner, work, stack)
            daemon.spawn("sharing", _failure(scope))
            scope.spawn("shards", owner.run())
            try:
                yield
            finally:
                await self._leave(owner, finish)

    async def _start(
        self,
        scope: Supervisor,
        engine: Engine,
        owner: ShardOwner,
        work: EngineShards,
        stack: AsyncExitStack,
    ) -> Callable[[], Awaitable[None]]:
        """Start what runs all the time, and serve; return what finishes launches."""
        daemon, settings = self._daemon, self._daemon.settings
        tls, by_certificate = daemon.servers.tls, settings.tls.client_certificates
        peers = Peers(self._registry, lambda: owner.session, f"jobmgr/{daemon.id}", tls, by_certificate)
        stack.push_async_callback(peers.close)
        engine.elsewhere = OtherOwners(peers, daemon.called_by(), owner.fence)
        found = FoundJobs(engine.store.jobs, peers, daemon.called_by())
        engine.jobs_of_all, engine.losses_of_all = found.query, found.lost_seconds
        usage = settings.usage
        sharing = Sharing(lambda: self._assigns() is not None, owner.check)
        accountant = Accountant(
            engine.store, engine.lanes, daemon.clock, usage.labels, usage.interval, sharing=sharing
        )
        engine.accounts = accountant
        claiming = _Clients(daemon, owner)
        resmgr = daemon.client(Role.RESMGR, shards=lambda: owner.claim, fence=owner.check)
        called = Called(
            ResmgrClient(resmgr), claiming.hostmgr, claiming.resmgr_source, claiming.hostmgr_source
        )
        options = driver_options(settings, self._access)
        finish = start_drivers(scope.spawn, engine, called, options, daemon.clusters)
        scope.spawn("accounts", accountant.run())
        scope.spawn("history of usage", accountant.keep_history())
        scope.spawn("lockdown", engine.lockdown.follow())
        scope.spawn("peers", peers.follow())
        stack.enter_context(daemon.checked(lambda: engine.lanes.problem))
        stack.enter_context(knowing_runs(daemon.servers.door, engine))
        tell_problems(daemon, engine, stack)
        daemon.problems.elsewhere = OthersProblems(peers).told
        stack.callback(setattr, daemon.problems, "elsewhere", None)
        workflows = Workflows(engine)
        watches = Watches(engine, workflows.status, daemon.clock)
        watches.share()
        work.followers = (watches,)
        scope.spawn("seen shards", _tell_seen(self._registry, watches))
        self._written = watches.written
        stack.callback(watches.close)
        passing = Passing(engine, peers, {"WatchService.Watch": merged_watch})
        made = served(
            daemon,
            engine,
            workflows,
            watches,
            daemon.hostmgrs(fence=owner.check),
            daemon.client(Role.RESMGR, fence=owner.check),
            self._agents,
            self._access,
            accountant,
            self._registry,
        )
        wrapped = [passing.over(each) for each in made]
        daemon.servers.rpc.activate(wrapped, owner.check)
        stack.callback(daemon.servers.rpc.deactivate, wrapped)
        return finish

    async def _leave(self, owner: ShardOwner, finish: Callable[[], Awaitable[None]]) -> None:
        """Hand all shards over; finish what was begun where nobody is there to take them."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await owner.leave()
                await self._written()
                if owner.terms:
                    await finish()
        except (PelotonError, TimeoutError) as error:
            log.warning("not all shards are handed over: %s", error or "out of time")

    def _fence(self, job_id: JobId) -> None:
        assert self._owner is not None, "no job is written before there is an owner"
        self._owner.fence(shard_of(job_id))

    def _give_up(self, error: Fenced) -> None:
        assert self._owner is not None, "no job is written before there is an owner"
        self._owner.give_up(error)


class _Clients:
    """The clients by which shards are worked for: each call claims what is owned, or what was open."""

    def __init__(self, daemon: Daemon[JobmgrSettings], owner: ShardOwner) -> None:
        self._daemon = daemon
        self._owner = owner
        self._all = daemon.hostmgrs(lambda: owner.claim, owner.check)

    def hostmgr(self, cluster: str) -> HostmgrClient:
        """Return the host manager of a cluster."""
        return HostmgrClient(self._all.of(cluster))

    def hostmgr_source(self, cluster: str, opened: Opened) -> HostmgrClient:
        """Return the host manager of a cluster, to read what happens to jobs of open shards."""
        return HostmgrClient(
            self._daemon.client(Role.HOSTMGR, cluster, self._claim(opened), self._owner.check)
        )

    def resmgr_source(self, opened: Opened) -> ResmgrClient:
        """Return the resource manager, to read what happens to jobs of open shards."""
        return ResmgrClient(
            self._daemon.client(Role.RESMGR, shards=self._claim(opened), fence=self._owner.check)
        )

    def _claim(self, opened: Opened) -> Callable[[], str]:
        return lambda: self._owner.claim_to(opened.shards)


async def _tried(what: str, action: Callable[[], Awaitable[T]]) -> T:
    """Run an action until it succeeds."""
    delays = backoff()
    while True:
        try:
            return await action()
        except TRANSIENT as error:
            log.warning("%s: %s", what, error)
        await delays.wait()


async def _tell_seen(registry: ShardRegistry, watches: Watches) -> None:
    """Tell who watches which table of shards was seen; run for ever."""
    while True:
        watches.saw(registry.seen().table.generation)
        await registry.changed()


async def _nothing() -> None:
    """Wait for nothing."""


async def _failure(scope: Supervisor) -> None:
    """Raise what ends the scope."""
    raise PelotonError(await scope.failed())

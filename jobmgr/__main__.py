"""The job manager: `python -m jobmgr -c FILE`."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from jobmgr.clients.hostmgr import HostmgrClient
from jobmgr.clients.resmgr import ResmgrClient
from jobmgr.config import JobmgrSettings
from jobmgr.drivers.accounting import Accountant
from jobmgr.drivers.options import Called
from jobmgr.drivers.pod_event_expiry import expire_pod_events
from jobmgr.drivers.start import start_drivers
from jobmgr.engine.engine import Engine
from jobmgr.engine.lane import JobFence
from jobmgr.engine.read_ahead import ReadAhead
from jobmgr.engine.shards import LeaderShards
from jobmgr.engine.task_access import TaskAccess
from jobmgr.engine.workflows import Workflows
from jobmgr.parts import driver_options, follow_engine, knowing_runs, served, tell_problems
from jobmgr.server import NAMES
from jobmgr.services.v1alpha.watches import Watches
from jobmgr.sharing import Share
from peloton.calls.rpc import Caller, Hostmgrs
from peloton.config.agents import AgentAccess
from peloton.daemon.lifecycle import Daemon, run
from peloton.identity.agents import agent_access
from peloton.identity.task_tokens import TaskDoor, read_task_keys
from peloton.membership.interface import Role
from peloton.membership.shard_registry import ShardRegistry
from storage.interface import Store
from storage.selection.factory import Stores

log = logging.getLogger(__name__)


def build(daemon: Daemon[JobmgrSettings]) -> None:
    """Compose the job manager: it serves while it leads."""
    settings = daemon.settings
    if settings.job_type:
        log.info("JOB_TYPE %s has no effect: every job manager runs jobs of all types", settings.job_type)
    stores, agents, ahead = Stores(settings.storage), agent_access(settings.agents), ReadAhead()
    registry = daemon.membership.shards()
    access = task_access(daemon)
    if settings.shared:
        share = Share(daemon, stores, registry, agents, access)
        daemon.lead(share.leading, NAMES, share.working)
        return
    daemon.checks.append(stores.trouble)
    daemon.lead(
        lambda term: leading(daemon, stores, registry, ahead, agents, access, term),
        NAMES,
        lambda: standby(daemon, stores, registry, ahead),
    )


def task_access(daemon: Daemon[JobmgrSettings]) -> TaskAccess:
    """Return what tasks get to call Peloton with; let the door know their tokens. Raises ConfigError."""
    settings, door = daemon.settings.task_access, daemon.servers.door
    keys = None if settings.keys_file is None else read_task_keys(settings.keys_file)
    if door is not None and keys is not None:
        door.tasks = TaskDoor(keys, daemon.clock.wall)

    def members() -> str:
        return ",".join(member.address.target for member in daemon.membership.members(Role.JOBMGR).values())

    return TaskAccess(
        (lambda: settings.addresses) if settings.addresses else members,
        daemon.clock.wall,
        keys,
        settings.token_hours * 3600,
        door is not None,
        {
            "PELOTON_CA_FILE": daemon.settings.tls.ca_file,
            "PELOTON_CERT_FILE": settings.certificate_file,
            "PELOTON_KEY_FILE": settings.key_file,
        },
    )


@asynccontextmanager
async def standby(
    daemon: Daemon[JobmgrSettings], stores: Stores, registry: ShardRegistry, ahead: ReadAhead
) -> AsyncIterator[None]:
    """Keep ready what a term begins with: a connection to the store, and the configs of active jobs."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(registry.close)
        await stack.enter_async_context(stores.standby(daemon.spawn))
        daemon.spawn("read ahead", ahead.follow(stores.open, lambda: daemon.leads))
        yield


@asynccontextmanager
async def leading(
    daemon: Daemon[JobmgrSettings],
    stores: Stores,
    registry: ShardRegistry,
    ahead: ReadAhead,
    agents: AgentAccess,
    access: TaskAccess,
    term: int,
) -> AsyncIterator[None]:
    """Serve one term. The services open once it is known which jobs are active."""
    async with AsyncExitStack() as stack:
        store = await stores.open()
        shards = await begin_writing(daemon, store, registry, term, stack)
        engine = build_engine(daemon, store, ahead, shards.fence)
        await engine.lockdown.load()
        await engine.recovery.begin()
        stack.enter_context(daemon.checked(lambda: engine.lanes.problem))
        usage = daemon.settings.usage
        accountant = Accountant(store, engine.lanes, daemon.clock, usage.labels, usage.interval)
        engine.accounts = accountant

        def claim() -> str:
            return shards.claim

        resmgr, hostmgrs = daemon.client(Role.RESMGR, shards=claim), daemon.hostmgrs(claim)
        finish = start_background(daemon, engine, resmgr, hostmgrs, access)
        daemon.spawn("accounts", engine.recovery.run_after(accountant.run))
        daemon.spawn("history of usage", accountant.keep_history())
        stack.enter_context(knowing_runs(daemon.servers.door, engine))
        tell_problems(daemon, engine, stack)
        workflows = Workflows(engine)
        watches = Watches(engine, workflows.status, daemon.clock)
        stack.callback(watches.close)
        made = served(
            daemon, engine, workflows, watches, hostmgrs, resmgr, agents, access, accountant, registry
        )
        await stack.enter_async_context(daemon.serving(*made))
        daemon.before_stepping_down(finish)
        yield


async def begin_writing(
    daemon: Daemon[JobmgrSettings],
    store: Store,
    registry: ShardRegistry,
    term: int,
    stack: AsyncExitStack,
) -> LeaderShards:
    """Begin the leader's term in the store, and own all shards of jobs.

    What is pushed on the stack closes the store first: the session that owns the shards ends after it.
    """
    shards = LeaderShards(registry, daemon.member, store, daemon.clock, term, daemon.fence, daemon.give_up)
    stack.push_async_callback(shards.close)
    stack.push_async_callback(store.close)
    await store.begin_term(Role.JOBMGR.value, term, daemon.fence)
    await shards.own_all()
    daemon.spawn("shards", shards.keep())
    return shards


def build_engine(daemon: Daemon[JobmgrSettings], store: Store, ahead: ReadAhead, fence: JobFence) -> Engine:
    """Return the engine of a term, which the audit log and the metrics look into."""
    settings = daemon.settings
    engine = Engine(store, daemon.clock, settings.goal_state, settings.lanes, fence, ahead)
    follow_engine(daemon, engine)
    return engine


def start_background(
    daemon: Daemon[JobmgrSettings], engine: Engine, resmgr: Caller, hostmgrs: Hostmgrs, access: TaskAccess
) -> Callable[[], Awaitable[None]]:
    """Start what runs all through a term; return what to do before an orderly end of it."""
    settings = daemon.settings
    called = Called(ResmgrClient(resmgr), lambda cluster: HostmgrClient(hostmgrs.of(cluster)))
    options = driver_options(settings, access)
    finish = start_drivers(daemon.spawn, engine, called, options, daemon.clusters)
    expiring = expire_pod_events(engine.store, daemon.clock, settings.event_days, settings.expiry)
    daemon.spawn("old events", expiring)
    return finish


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job manager; return its exit status."""
    # A collection visits all tasks in memory: at the default rate it takes a quarter of the time.
    gc.set_threshold(100_000, 20, 100)
    return run(JobmgrSettings, Role.JOBMGR, build, argv)


if __name__ == "__main__":
    sys.exit(main())

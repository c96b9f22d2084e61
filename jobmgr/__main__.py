"""The job manager: `python -m jobmgr -c FILE`."""

from __future__ import annotations

import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from jobmgr.config import JobmgrSettings
from jobmgr.drivers.hostmgr import Hostmgr
from jobmgr.drivers.spawn import expire, spawn_drivers
from jobmgr.engine.engine import Engine
from jobmgr.engine.job_metrics import JOB_COUNTS
from jobmgr.server import NAMES, services
from jobmgr.services.v1alpha.watches import Watches
from peloton.daemon.lifecycle import Daemon, run
from peloton.identity.agents import agent_access
from peloton.membership.interface import Role
from peloton.private.eventstream.eventstream_pb2_grpc import EventStreamServiceStub
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import FeasibilityServiceStub
from peloton.private.hostmgr.history.history_pb2_grpc import HostHistoryServiceStub
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub
from peloton.private.hostmgr.matching.matching_pb2_grpc import MatchingServiceStub
from peloton.private.hostmgr.passing.passing_pb2_grpc import PassingServiceStub
from peloton.private.hostmgr.reconcile.reconcile_pb2_grpc import ReconcileServiceStub
from peloton.private.resmgr.holding.holding_pb2_grpc import HoldingServiceStub
from peloton.private.resmgr.planning.planning_pb2_grpc import PlanningServiceStub
from peloton.private.resmgr.preemption.preemption_pb2_grpc import PreemptionServiceStub
from peloton.private.resmgr.waiting.waiting_pb2_grpc import WaitingServiceStub
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub
from storage.selection.factory import Stores


def build(daemon: Daemon[JobmgrSettings]) -> None:
    """Compose the job manager: it serves while it leads."""
    settings, stores = daemon.settings, Stores(daemon.settings.storage)
    agents = agent_access(settings.agents)

    @asynccontextmanager
    async def leading(term: int) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            store = await stores.open()
            stack.push_async_callback(store.close)
            await store.begin_term(Role.JOBMGR.value, term, daemon.fence)
            limits = settings.goal_state.limits()
            engine = Engine(store, daemon.clock, limits, settings.lanes, daemon.fence)
            if daemon.servers.audit is not None:
                daemon.servers.audit.pool_of = engine.pool_of
            JOB_COUNTS.follow(engine.lanes.in_memory, settings.shown_jobs)
            await engine.lockdown.load()
            await engine.recovery.begin()
            stack.enter_context(_watched(daemon, lambda: engine.lanes.problem))
            hostmgr = daemon.hostmgrs(InternalHostServiceStub)
            feasibility = daemon.hostmgrs(FeasibilityServiceStub)
            matching = daemon.hostmgrs(MatchingServiceStub)
            finish = spawn_drivers(
                daemon.spawn,
                engine,
                resmgr=daemon.client(Role.RESMGR, ResourceManagerServiceStub),
                waiting=daemon.client(Role.RESMGR, WaitingServiceStub),
                holding=daemon.client(Role.RESMGR, HoldingServiceStub),
                preemption=daemon.client(Role.RESMGR, PreemptionServiceStub),
                hostmgrs=lambda cluster: Hostmgr(
                    hosts=hostmgr.of(cluster),
                    events=daemon.client(Role.HOSTMGR, EventStreamServiceStub, cluster),
                    passing=daemon.client(Role.HOSTMGR, PassingServiceStub, cluster),
                    history=daemon.client(Role.HOSTMGR, HostHistoryServiceStub, cluster),
                    reconciler=daemon.client(Role.HOSTMGR, ReconcileServiceStub, cluster),
                    matching=matching.of(cluster),
                ),
                clusters=daemon.clusters,
                kills=settings.task_kill.bucket(),
                shut_downs=settings.executor_shutdown.bucket(),
                cluster=settings.cluster,
                workflows_kept=settings.workflows_kept,
            )
            daemon.spawn("old events", expire(store, daemon.clock, settings.event_days, settings.expiry))
            watches = Watches(engine, daemon.clock)
            stack.callback(watches.close)
            await stack.enter_async_context(
                daemon.serving(
                    *services(
                        engine,
                        daemon.clock,
                        hostmgr.of,
                        feasibility,
                        matching,
                        daemon.client(Role.RESMGR, PlanningServiceStub),
                        watches,
                        settings.enable_secrets,
                        agents,
                    )
                )
            )
            daemon.before_stepping_down(finish)
            yield

    daemon.lead(leading, NAMES, lambda: stores.standby(daemon.spawn))


@contextmanager
def _watched(daemon: Daemon[JobmgrSettings], check: Callable[[], str]) -> Iterator[None]:
    """Let /health report what the check returns."""
    daemon.checks.append(check)
    try:
        yield
    finally:
        daemon.checks.remove(check)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job manager; return its exit status."""
    # A collection visits all tasks in memory: at the default rate it takes a quarter of the time.
    gc.set_threshold(100_000, 20, 100)
    return run(JobmgrSettings, Role.JOBMGR, build, argv)


if __name__ == "__main__":
    sys.exit(main())

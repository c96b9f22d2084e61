"""The resource manager's process: `python -m resmgr -c FILE`."""

from __future__ import annotations

import gc
import logging
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from peloton.api.v0.respool.respool_pb2_grpc import add_ResourceManagerServicer_to_server
from peloton.api.v1alpha.respool.svc.respool_svc_pb2_grpc import add_ResourcePoolServiceServicer_to_server
from peloton.clock import Clock
from peloton.daemon.lifecycle import Daemon, run
from peloton.daemon.starts import FollowedStarts
from peloton.membership.interface import Role, groups
from peloton.private.resmgr.explain.explain_pb2_grpc import add_ExplainServiceServicer_to_server
from peloton.private.resmgr.holding.holding_pb2_grpc import add_HoldingServiceServicer_to_server
from peloton.private.resmgr.monitoring.monitoring_pb2_grpc import add_MonitoringServiceServicer_to_server
from peloton.private.resmgr.placing.placing_pb2_grpc import add_PlacingServiceServicer_to_server
from peloton.private.resmgr.planning.planning_pb2_grpc import add_PlanningServiceServicer_to_server
from peloton.private.resmgr.preemption.preemption_pb2_grpc import add_PreemptionServiceServicer_to_server
from peloton.private.resmgr.queueing.queueing_pb2_grpc import add_QueueServiceServicer_to_server
from peloton.private.resmgr.waiting.waiting_pb2_grpc import add_WaitingServiceServicer_to_server
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import add_ResourceManagerServiceServicer_to_server
from peloton.rpc.server import Service, names_of, service
from resmgr.clients import HostmgrsClient
from resmgr.config import ResmgrSettings
from resmgr.core.scheduler import Scheduler
from resmgr.drivers.capacity import Capacity
from resmgr.drivers.claims import AbandonedClaims
from resmgr.drivers.clusters import ClusterDrivers
from resmgr.drivers.feasibility import Feasibility
from resmgr.drivers.loop import Driver, LoopTimes
from resmgr.drivers.metrics import keep_measuring
from resmgr.drivers.plans import Plans
from resmgr.drivers.recovery import Recovery
from resmgr.drivers.sampling import Sampler
from resmgr.drivers.status_stream import PullOptions
from resmgr.drivers.store_audit import StoreAudit
from resmgr.drivers.strangers import StrangerLookup
from resmgr.services.explain import ExplainService
from resmgr.services.holding import HoldingService
from resmgr.services.monitoring import MonitoringService
from resmgr.services.pending_reasons import PendingReasonsService
from resmgr.services.placing import PlacingService
from resmgr.services.planning import PlanningService
from resmgr.services.pool_changes import PoolChanges
from resmgr.services.pools import ALIASES, PoolService
from resmgr.services.pools_v1alpha import PoolServiceV1Alpha
from resmgr.services.preemption import PreemptionService
from resmgr.services.problems import stuck_problems
from resmgr.services.queueing import QueueService
from resmgr.services.tasks import TaskService
from storage.selection.factory import Stores

SERVICES = (
    *ALIASES,
    *names_of(
        add_ResourceManagerServicer_to_server,
        add_ResourcePoolServiceServicer_to_server,
        add_ResourceManagerServiceServicer_to_server,
        add_ExplainServiceServicer_to_server,
        add_HoldingServiceServicer_to_server,
        add_QueueServiceServicer_to_server,
        add_MonitoringServiceServicer_to_server,
        add_PlacingServiceServicer_to_server,
        add_PlanningServiceServicer_to_server,
        add_PreemptionServiceServicer_to_server,
        add_WaitingServiceServicer_to_server,
    ),
)
COLLECTION = (50_000, 20, 50)
"""Thresholds of Python's cycle collector. Tasks are many long-lived objects: with hundreds of thousands, the
default thresholds cost a fifth of the time."""

log = logging.getLogger(__name__)


def build_driver(
    settings: ResmgrSettings, clock: Clock, members: Callable[[], Collection[str] | None] = lambda: None
) -> Driver:
    """Build the core and its loop from settings."""
    preemption = settings.preemption
    scheduler = Scheduler(
        settings.limits, uuid.uuid4().hex, preemption.rules, preemption.queue_limit, settings.policies
    )
    return Driver(scheduler, loop_times(settings), clock, members)


def loop_times(settings: ResmgrSettings) -> LoopTimes:
    """Return the periods of the loop."""
    admission, preemption = settings.admission, settings.preemption
    return LoopTimes(admission.interval, admission.pause, settings.entitlement_interval, preemption.period)


def pull_options(settings: ResmgrSettings) -> PullOptions:
    """Return how events are pulled."""
    events = settings.events
    return PullOptions(events.batch, events.poll, events.pause)


@asynccontextmanager
async def leading(daemon: Daemon[ResmgrSettings], stores: Stores, term: int) -> AsyncIterator[None]:
    """Serve one term: the services open once the pools are known; recovery of tasks follows."""
    settings = daemon.settings
    store = await stores.open()
    try:
        await store.begin_term(Role.RESMGR.value, term, daemon.fence)
        driver = build_driver(settings, daemon.clock, lambda: _present(daemon))
        for pool in driver.scheduler.load_pools(await store.pools.all()):
            log.error("%s: it is stored with a name that a sibling has: update or delete it", pool.path)
        recovery = Recovery(driver, store.jobs, store.tasks)
        hostmgrs = HostmgrsClient(daemon.hostmgrs())
        capacity = Capacity(driver, hostmgrs, settings.capacity_first, settings.capacity_interval)
        claims = AbandonedClaims(driver, hostmgrs)
        clusters = ClusterDrivers(
            driver,
            hostmgrs.of,
            claims=claims,
            options=pull_options(settings),
            resync=recovery.resync,
        )
        await clusters.open(daemon.clusters.names())
        sampler = Sampler(driver.scheduler, driver.clock, store.history)
        driver.preempted.keep(store.history, driver.clock)
        changes = PoolChanges(driver, store.pools, capacity.fresh)
        served = services(driver, hostmgrs, changes, sampler, settings.preemption.period)
        starts = FollowedStarts(daemon.membership, lambda: groups(daemon.membership.clusters()), daemon.clock)
        async with AsyncExitStack() as stack:
            telling = daemon.problems.telling
            stack.enter_context(telling("whether tasks are stuck", partial(stuck_problems, driver)))
            stack.enter_context(telling("whether daemons start often", starts.problems))
            await stack.enter_async_context(daemon.serving(*served))
            daemon.spawn("starts", starts.run())
            daemon.spawn("recovery", recovery.run())
            daemon.spawn("capacity", capacity.run())
            daemon.spawn("claims", claims.run())
            daemon.spawn("clusters", daemon.clusters.follow(clusters.run))
            daemon.spawn("stranger lookup", StrangerLookup(driver, recovery).run())
            daemon.spawn("store audit", StoreAudit(driver, recovery, settings.audit_interval).run())
            daemon.spawn("history", sampler.run())
            daemon.spawn("history of preemptions", driver.preempted.run())
            spawn_scheduling(daemon, driver, hostmgrs)
            yield
    finally:
        await store.close()


def services(
    driver: Driver, hostmgrs: HostmgrsClient, changes: PoolChanges, sampler: Sampler, period: float
) -> tuple[Service, ...]:
    """Return the services of a term. `period` is that of preemption, in seconds."""
    planning = PlanningService(driver, hostmgrs, Plans(), period)
    return (
        service(add_ResourceManagerServicer_to_server, PoolService(changes), ALIASES),
        service(add_ResourcePoolServiceServicer_to_server, PoolServiceV1Alpha(changes)),
        service(add_ResourceManagerServiceServicer_to_server, TaskService(driver, hostmgrs)),
        service(add_ExplainServiceServicer_to_server, ExplainService(driver)),
        service(add_MonitoringServiceServicer_to_server, MonitoringService(driver, sampler)),
        service(add_PlacingServiceServicer_to_server, PlacingService(driver)),
        service(add_PreemptionServiceServicer_to_server, PreemptionService(driver)),
        service(add_WaitingServiceServicer_to_server, PendingReasonsService(driver)),
        service(add_HoldingServiceServicer_to_server, HoldingService(driver)),
        service(add_QueueServiceServicer_to_server, QueueService(driver)),
        service(add_PlanningServiceServicer_to_server, planning),
    )


def spawn_scheduling(daemon: Daemon[ResmgrSettings], driver: Driver, hostmgrs: HostmgrsClient) -> None:
    """Begin what the scheduler does by itself: admission, leases, entitlement, preemption, figures."""
    settings = daemon.settings
    daemon.spawn("admission", driver.run())
    daemon.spawn("leases", driver.watch_leases())
    interval = settings.placement.feasibility_interval
    daemon.spawn("feasibility", Feasibility(driver, hostmgrs, interval).run())
    daemon.spawn("entitlement", driver.keep_sharing())
    if settings.enable_preemption:
        daemon.spawn("preemption", driver.keep_preempting())
        daemon.spawn("sparing", driver.keep_sparing())
    daemon.spawn("metrics", keep_measuring(driver.scheduler, settings.metrics_interval))


def _present(daemon: Daemon[ResmgrSettings]) -> set[str]:
    """Return all processes of the membership, as they name themselves in calls."""
    membership = daemon.membership
    return {
        f"{group.role.value}/{member}"
        for group in groups(membership.clusters())
        for member in membership.members(*group)
    }


def build(daemon: Daemon[ResmgrSettings]) -> None:
    """Connect the daemon to its stores and its terms."""
    stores = Stores(daemon.settings.storage)
    daemon.checks.append(stores.trouble)
    daemon.lead(lambda term: leading(daemon, stores, term), SERVICES, lambda: stores.standby(daemon.spawn))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon and return its exit code."""
    gc.set_threshold(*COLLECTION)
    return run(ResmgrSettings, Role.RESMGR, build, argv)


if __name__ == "__main__":
    sys.exit(main())

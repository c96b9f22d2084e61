"""The host manager's process: `python -m hostmgr -c FILE…`."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from hostmgr.config import HostmgrSettings, LoadSettings, MesosSettings, ReconcileSettings
from hostmgr.core.filter import Ranking
from hostmgr.core.hosts import Hosts
from hostmgr.core.launches import Launches
from hostmgr.core.pools import HostPools
from hostmgr.core.reconcile import Policy, Reconciler
from hostmgr.core.runs import Runs
from hostmgr.core.table import HostTable
from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.history import HostHistory
from hostmgr.drivers.host_mover import HostMover
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.load_scores import LoadScores, Source, prometheus, score_file
from hostmgr.drivers.maintenance import Maintenance
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.drivers.records import HostRecords
from hostmgr.drivers.reservations import ReservationPlanner
from hostmgr.drivers.status_updates import CLIENTS, HOLDER, Entry
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.mesos.calls import Framework
from hostmgr.mesos.codec import codec
from hostmgr.mesos.connection import Handler, MesosDriver
from hostmgr.mesos.host_names import HostNames
from hostmgr.mesos.http import basic
from hostmgr.mesos.maintenance import MaintenanceCalls
from hostmgr.mesos.operator import OperatorClient
from hostmgr.mesos.session import Session
from hostmgr.mesos.tls import Tls, contexts
from hostmgr.services.claims import ClaimService
from hostmgr.services.events import EventStream
from hostmgr.services.feasibility import Feasibility
from hostmgr.services.history import HistoryService
from hostmgr.services.hosts import HostService, HostServiceV1Alpha
from hostmgr.services.internal import InternalHosts
from hostmgr.services.leases import Leases
from hostmgr.services.matching import Matching
from hostmgr.services.offers import find_hosts
from hostmgr.services.passing import Passing
from hostmgr.services.pod_events import PodEventStream
from hostmgr.services.reconcile import ReconcileTasks
from hostmgr.services.reservations import ReservationService
from hostmgr.services.watches import Watches
from peloton.api.v0.host.svc.host_svc_pb2_grpc import add_HostServiceServicer_to_server
from peloton.api.v1alpha.host.svc import host_svc_pb2_grpc as host_svc_v1alpha
from peloton.config.errors import ConfigError
from peloton.config.private import require_private
from peloton.daemon.lifecycle import Daemon, run
from peloton.eventstream import EventRing
from peloton.membership.interface import Role
from peloton.mesos.detector import MasterDetector, detecting
from peloton.private.eventstream.eventstream_pb2_grpc import add_EventStreamServiceServicer_to_server
from peloton.private.eventstream.v1alpha.eventstreamsvc import eventstreamsvc_pb2_grpc
from peloton.private.hostmgr.claims.claims_pb2_grpc import add_ClaimServiceServicer_to_server
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import add_FeasibilityServiceServicer_to_server
from peloton.private.hostmgr.history.history_pb2_grpc import add_HostHistoryServiceServicer_to_server
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import add_InternalHostServiceServicer_to_server
from peloton.private.hostmgr.matching.matching_pb2_grpc import add_MatchingServiceServicer_to_server
from peloton.private.hostmgr.passing.passing_pb2_grpc import add_PassingServiceServicer_to_server
from peloton.private.hostmgr.reconcile.reconcile_pb2_grpc import add_ReconcileServiceServicer_to_server
from peloton.private.hostmgr.reservations.reservations_pb2_grpc import (
    add_ReservationServiceServicer_to_server,
)
from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2_grpc import (
    add_HostManagerServiceServicer_to_server,
)
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub
from peloton.rpc.client import Caller
from peloton.rpc.server import service
from storage.interface import Store
from storage.selection.factory import Stores

EXPIRE_SECONDS = 1.0
PRUNE_SECONDS = 3600.0
MOST_SCORES = 100_000
"""Hosts whose cost is requested from resmgr at a time."""
COLLECTION = (20_000, 100, 100)
"""Thresholds of Python's cycle collector. Events and runs are many long-lived objects without cycles."""
SERVICES = (
    "peloton.private.hostmgr.hostsvc.InternalHostService",
    "peloton.private.hostmgr.v1alpha.svc.HostManagerService",
    "peloton.private.hostmgr.claims.ClaimService",
    "peloton.private.hostmgr.feasibility.FeasibilityService",
    "peloton.private.hostmgr.matching.MatchingService",
    "peloton.private.eventstream.EventStreamService",
    "peloton.private.eventstream.v1alpha.eventstreamsvc.EventStreamService",
    "peloton.private.hostmgr.reconcile.ReconcileService",
    "peloton.private.hostmgr.reservations.ReservationService",
    "peloton.private.hostmgr.passing.PassingService",
    "peloton.private.hostmgr.history.HostHistoryService",
    "peloton.api.v0.host.svc.HostService",
    "peloton.api.v1alpha.host.svc.HostService",
)
Hostmgr = Daemon[HostmgrSettings]
log = logging.getLogger(__name__)


def build(daemon: Hostmgr) -> None:
    """Set up the work of a leader, and the health checks of all instances."""
    daemon.cluster = daemon.settings.mesos.cluster
    access = _access(daemon.settings.mesos)
    stores = Stores(daemon.settings.storage)

    def leading(term: int) -> AbstractAsyncContextManager[None]:
        return _lead(daemon, stores, access, term)

    daemon.lead(leading, SERVICES, lambda: stores.standby(daemon.spawn))
    daemon.checks.append(lambda: "" if daemon.membership.leader(*daemon.group) else "no hostmgr leads")


@asynccontextmanager
async def _lead(daemon: Hostmgr, stores: Stores, access: Access, term: int) -> AsyncIterator[None]:
    with _checked(daemon, lambda: "about to lead"):
        store = await stores.open()
    try:
        with _checked(daemon, lambda: "about to lead"):
            await store.begin_term(str(daemon.group), term, daemon.fence)
        async with detecting(daemon.settings.mesos.master) as detector:
            with _checked(daemon, lambda: "about to lead"):
                parts = await _build_parts(daemon, store, detector, access)
            with _checked(daemon, lambda: parts.manager.unhealthy or parts.cluster.unhealthy):
                async with _serve(daemon, store, parts, term):
                    yield
    finally:
        await store.close()


@contextmanager
def _checked(daemon: Hostmgr, check: Callable[[], str]) -> Iterator[None]:
    """Add a check to the daemon's health during the context."""
    daemon.checks.append(check)
    try:
        yield
    finally:
        daemon.checks.remove(check)


@dataclass(frozen=True, slots=True)
class Parts:
    """What works in one term."""

    manager: HostManager
    cluster: Cluster
    reconciliation: Reconciliation
    maintenance: Maintenance
    pools: HostPoolManager
    history: HostHistory


async def _build_parts(daemon: Hostmgr, store: Store, detector: MasterDetector, access: Access) -> Parts:
    """Build the parts of a term.

    The framework id, records of hosts and host pools are stored; the cluster manager reports the rest.
    """
    settings = daemon.settings
    framework_id = await store.hosts.framework_id(settings.mesos.framework) or ""
    reconciler = Reconciler(_policy(settings.reconcile))
    ring: EventRing[Entry] = EventRing(str(uuid.uuid4()), CLIENTS, HOLDER, settings.event_ring)
    pools = HostPools() if settings.enable_host_pool else None
    table = HostTable(
        settings.scarce_gpu,
        concurrent_launches=settings.launches.concurrent,
        pool_of=None if pools is None else pools.pool_of,
    )
    backend = _mesos(daemon, framework_id, detector, access)
    manager = HostManager(
        name=settings.mesos.framework,
        framework_id=framework_id,
        backend=backend,
        store=store,
        hosts=Hosts(
            table,
            settings.ranking,
            settings.placing_seconds,
            settings.client_placing_seconds,
            settings.held_seconds,
        ),
        runs=Runs(),
        launches=Launches(table, settings.launches.policy),
        reconciler=reconciler,
        ring=ring,
        clock=daemon.clock,
        claim_grace=settings.claim_grace,
        cluster=settings.mesos.cluster,
        reservation_policy=settings.reservations.policy,
    )
    cluster = Cluster(
        backend, manager.hosts, reconciler, settings.mesos.agents_interval, daemon.clock.monotonic
    )
    reconciliation = Reconciliation(
        manager, reconciler, store, daemon.clock, settings.reconcile.batch, settings.mesos.cluster
    )
    history = HostHistory(daemon.clock)
    records = HostRecords(store.hosts, settings.mesos.cluster, history)
    await records.load()
    maintenance = Maintenance(records, manager, cluster, daemon.clock, settings.maintenance_interval)
    pool_manager = HostPoolManager(
        settings.mesos.framework, store.host_pools, pools, manager.hosts, cluster, maintenance, history
    )
    await pool_manager.load()
    return Parts(manager, cluster, reconciliation, maintenance, pool_manager, history)


def _mesos(daemon: Hostmgr, framework_id: str, detector: MasterDetector, access: Access) -> MesosBackend:
    settings = daemon.settings
    wire, hosts = codec(settings.mesos.encoding), HostNames(settings.mesos.cluster)

    def connect(handler: Handler) -> MesosDriver:
        return MesosDriver(
            Session(framework_id or None), _framework(settings), wire, detector, handler,
            daemon.clock.monotonic, access.authorization, access.tls,
            max_record=settings.mesos.max_record_bytes, fence=daemon.fence,
        )  # fmt: skip

    operator = OperatorClient(
        detector, wire, settings.mesos.operator_timeout, access.authorization, access.tls
    )
    return MesosBackend(
        connect,
        AgentReader(operator, settings.mesos.role, hosts),
        MaintenanceCalls(operator, daemon.clock.wall, hosts),
        settings.mesos.principal,
        hosts,
    )


@asynccontextmanager
async def _serve(daemon: Hostmgr, store: Store, parts: Parts, term: int) -> AsyncIterator[None]:
    manager, cluster, reconciliation = parts.manager, parts.cluster, parts.reconciliation
    maintenance, pools = parts.maintenance, parts.pools
    resmgr = daemon.client(Role.RESMGR, ResourceManagerServiceStub)
    daemon.spawn("mesos", manager.backend.run())
    daemon.spawn("acknowledgements", manager.status_updates.acknowledge(manager.backend))
    daemon.spawn("agents", cluster.follow())
    scores = _load_source(daemon.settings.load)
    if scores is not None:
        load, now = daemon.settings.load, daemon.clock.monotonic
        follower = LoadScores(manager.hosts.table, scores, load.interval, load.keep, now, daemon.cluster)
        daemon.spawn("load scores", follower.follow())
    elif daemon.settings.ranking is Ranking.LOAD_AWARE:
        log.warning("bin_packing is LOAD_AWARE, but neither load.prometheus nor load.file gives scores")
    daemon.spawn("reconciliation", reconciliation.run())
    daemon.spawn("maintenance", maintenance.run())
    daemon.spawn("claims", _every(EXPIRE_SECONDS, lambda: manager.expire_claims(_claimants(daemon))))
    daemon.spawn("pauses", _every(EXPIRE_SECONDS, manager.end_pauses))
    daemon.spawn("host pools", pools.run())
    mover = HostMover(pools, maintenance, cluster, lambda: _scores(resmgr))
    daemon.spawn("host mover", mover.run())
    daemon.spawn("old offers", _every(PRUNE_SECONDS, manager.prune_offers))
    watches = Watches(manager.status_updates, manager.hosts)
    planner = ReservationPlanner(manager, store, daemon.clock)
    daemon.spawn("reservations", planner.run())
    services = (
        service(
            add_InternalHostServiceServicer_to_server,
            InternalHosts(manager, cluster, reconciliation, watches, maintenance, pools),
        ),
        service(add_HostManagerServiceServicer_to_server, Leases(manager, cluster, reconciliation)),
        service(add_ClaimServiceServicer_to_server, ClaimService(manager)),
        service(
            add_FeasibilityServiceServicer_to_server,
            Feasibility(manager.hosts.table, cluster, partial(find_hosts, manager)),
        ),
        service(add_MatchingServiceServicer_to_server, Matching(manager.hosts.table, cluster, daemon.clock)),
        service(add_EventStreamServiceServicer_to_server, EventStream(manager.status_updates)),
        service(eventstreamsvc_pb2_grpc.add_EventStreamServiceServicer_to_server, PodEventStream(manager)),
        service(add_PassingServiceServicer_to_server, Passing(manager.status_updates)),
        service(add_HostHistoryServiceServicer_to_server, HistoryService(parts.history, maintenance.records)),
        service(add_ReconcileServiceServicer_to_server, ReconcileTasks(manager)),
        service(add_ReservationServiceServicer_to_server, ReservationService(manager, planner)),
        service(add_HostServiceServicer_to_server, HostService(cluster, maintenance, pools, mover)),
        service(
            host_svc_v1alpha.add_HostServiceServicer_to_server,
            HostServiceV1Alpha(cluster, maintenance, pools),
        ),
    )
    if term > 1:
        manager.postpone_claims(daemon.settings.reservations.takeover)
    try:
        async with daemon.serving(*services):
            yield
    finally:
        watches.close()
        manager.status_updates.close()


def _load_source(load: LoadSettings) -> Source | None:
    """Return where load scores come from; None where the settings name nothing."""
    if load.file is not None:
        return score_file(load.file, load.max_bytes)
    if load.prometheus:
        return prometheus(load.prometheus, load.query, load.host_label, load.timeout, load.max_bytes)
    return None


async def _scores(resmgr: Caller) -> Sequence[str]:
    """Return the hosts that can be moved, the cheapest first. Raises PelotonError."""
    request = resmgrsvc_pb2.GetHostsByScoresRequest(limit=MOST_SCORES)
    answer: resmgrsvc_pb2.GetHostsByScoresResponse = await resmgr.call("GetHostsByScores", request)
    return answer.hosts


def _claimants(daemon: Hostmgr) -> set[str]:
    """Return the present processes that claim hosts."""
    return {f"{Role.PLACEMENT.value}/{each}" for each in daemon.membership.members(Role.PLACEMENT)}


async def _every(seconds: float, work: Callable[[], None]) -> NoReturn:
    while True:
        await asyncio.sleep(seconds)
        work()


def _policy(settings: ReconcileSettings) -> Policy:
    return Policy(
        interval=settings.interval,
        repeat_after=settings.repeat_after,
        launch_grace=settings.launch_grace,
        reregister=settings.agent_reregister,
    )


def _framework(settings: HostmgrSettings) -> Framework:
    mesos = settings.mesos
    return Framework(
        user=mesos.user,
        name=mesos.name,
        role=mesos.role,
        principal=mesos.principal,
        failover_timeout=mesos.failover_timeout,
        gpus=mesos.gpu_resources,
        revocable=settings.revocable,
    )


@dataclass(frozen=True, slots=True)
class Access:
    """Authentication and TLS of connections to the Mesos master."""

    authorization: str = field(repr=False)
    tls: Tls | None


def _access(settings: MesosSettings) -> Access:
    """Read the files that the settings name. Raises ConfigError where one cannot be used."""
    tls = settings.tls
    made = contexts(tls.ca_file, tls.certificate_file, tls.key_file) if tls.enabled else None
    return Access(_authorization(settings), made)


def _authorization(settings: MesosSettings) -> str:
    """Return the value of the header Authorization. Raises ConfigError where the secret cannot be read."""
    if settings.secret_file is None:
        return ""
    require_private(settings.secret_file, "mesos.secret_file")
    try:
        secret = settings.secret_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"mesos.secret_file: {settings.secret_file}: {error}") from None
    return basic(settings.principal, secret)


def main() -> int:
    """Run the daemon."""
    gc.set_threshold(*COLLECTION)
    return run(HostmgrSettings, Role.HOSTMGR, build)


if __name__ == "__main__":
    sys.exit(main())

"""The parts of one term: the core, and what drives it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from hostmgr.backend.interface import Backend
from hostmgr.config import HostmgrSettings
from hostmgr.core.agents.known_hosts import KnownHosts
from hostmgr.core.claims.lifecycle import ClaimLimits
from hostmgr.core.cluster_manager.connection import MESOS
from hostmgr.core.cluster_manager.reconciliation import ReconciliationLimits
from hostmgr.core.hosts.all_hosts import HostLimits
from hostmgr.core.pools.pooled_hosts import PooledHosts
from hostmgr.core.state.host_pools import HostPools
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term, TermLimits
from hostmgr.drivers.agents import FollowedAgents
from hostmgr.drivers.framework import FrameworkRecord
from hostmgr.drivers.history import HostHistory
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.known_hosts import KnownHostKeeper
from hostmgr.drivers.maintenance import Maintenance
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.drivers.records import HostRecords
from hostmgr.drivers.reservations import ReservationPlanner
from hostmgr.drivers.sampling import COLUMNS, FINE_KEEP, Sampler
from hostmgr.drivers.status_updates import CLIENTS, HOLDER, Entry, StatusUpdates
from hostmgr.mesos.agent_statistics import AgentStatistics
from peloton.daemon.lifecycle import Daemon
from peloton.eventstream import EventRing
from peloton.identity.agents import agent_access
from peloton.model.shard import SHARDS
from storage.histories.courses import Kept, StoredCourses
from storage.interface import Store

API_SERVER = "the API server of Kubernetes"
"""What messages call the other end of the connection, in place of the Mesos master."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What works in one term."""

    manager: HostManager
    cluster: FollowedAgents
    reconciliation: Reconciliation
    maintenance: Maintenance
    pools: HostPoolManager
    history: HostHistory
    known: KnownHostKeeper
    planner: ReservationPlanner
    sampler: Sampler

    @property
    def unhealthy(self) -> str:
        """Return why the term does not work; empty while it does."""
        return self.manager.core.connection.unhealthy or self.cluster.sight.unhealthy


async def build_parts(
    daemon: Daemon[HostmgrSettings], store: Store, backend_of: Callable[[str], Backend]
) -> Parts:
    """Build the parts of a term.

    `backend_of` makes the backend for the stored framework id, which may be empty. The id, records
    of hosts and host pools are stored; the cluster manager reports the rest.
    """
    settings, clock = daemon.settings, daemon.clock
    pools = HostPools() if settings.enable_host_pool else None
    manager = await _manager(daemon, store, backend_of, pools)
    cluster = FollowedAgents(
        manager.backend, manager.hosts, manager.core.reconciler, settings.mesos.agents_interval,
        clock.monotonic,
    )  # fmt: skip
    history = HostHistory(clock, store.history, settings.framework)
    records = HostRecords(store.hosts, settings.cluster_name, history)
    await records.load()
    maintenance = Maintenance(records, manager, cluster, clock, settings.maintenance_interval)
    pooled = PooledHosts(pools, manager.hosts, cluster.sight, maintenance.hosts)
    pool_manager = HostPoolManager(settings.framework, store.host_pools, pooled, clock.monotonic, history)
    await pool_manager.load()
    known = KnownHostKeeper(
        settings.framework, store.known_hosts, KnownHosts(settings.lost_host_keep), cluster.sight,
        maintenance, manager.runs, clock, history,
    )  # fmt: skip
    await known.load()
    reconciliation = Reconciliation(
        manager, manager.core.reconciler, store, clock, settings.reconcile.batch, settings.cluster_name
    )
    planner = ReservationPlanner(manager, store, clock)
    statistics = AgentStatistics(agent_access(settings.agents))
    kept = Kept(f"hosts {settings.framework}", COLUMNS, FINE_KEEP, hours=True)
    sampler = Sampler(
        statistics.read, cluster.sight, manager.runs, settings.usage.limits, clock,
        StoredCourses(store.history, kept),
    )  # fmt: skip
    return Parts(
        manager, cluster, reconciliation, maintenance, pool_manager, history, known, planner, sampler
    )


async def _manager(
    daemon: Daemon[HostmgrSettings],
    store: Store,
    backend_of: Callable[[str], Backend],
    pools: HostPools | None,
) -> HostManager:
    settings = daemon.settings
    framework = FrameworkRecord(store, settings.framework, settings.cluster_name)
    framework_id = await framework.read()
    table = HostTable(
        settings.scarce_gpu,
        concurrent_launches=settings.launches.concurrent,
        pool_of=None if pools is None else pools.pool_of,
    )
    peer = MESOS if settings.kubernetes is None else API_SERVER
    core = Term(table, _limits(settings), framework_id, peer)
    ring: EventRing[Entry] = EventRing(str(uuid.uuid4()), CLIENTS, HOLDER, settings.event_ring, SHARDS)
    updates = StatusUpdates(ring, core.statuses, daemon.clock.monotonic)
    backend = backend_of(framework_id)
    return HostManager(core, backend, framework, updates, daemon.clock)


def _limits(settings: HostmgrSettings) -> TermLimits:
    claims = ClaimLimits(settings.ranking, settings.placing_seconds, settings.client_placing_seconds)
    return TermLimits(
        hosts=HostLimits(claims, settings.held_seconds, settings.held_share),
        launches=settings.launches.limits,
        reconcile=_reconcile_limits(settings),
        reservations=settings.reservations.limits,
        claim_grace=settings.claim_grace,
    )


def _reconcile_limits(settings: HostmgrSettings) -> ReconciliationLimits:
    """Return when to reconcile. An API server knows all nodes at once: none is to register again."""
    reconcile = settings.reconcile
    return ReconciliationLimits(
        interval=reconcile.interval,
        repeat_after=reconcile.repeat_after,
        launch_grace=reconcile.launch_grace,
        reregister=reconcile.agent_reregister if settings.kubernetes is None else 0.0,
    )

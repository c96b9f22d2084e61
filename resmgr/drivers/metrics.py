"""Gauges of pools and queues, updated periodically rather than on every change."""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from peloton.model.resources import KINDS, MILLI, Resources
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.histograms import BOUNDS, Histogram
from resmgr.core.state.pools import Pool
from resmgr.core.state.queues import PendingQueues

_BY_KIND = ["pool", "kind"]
ALLOCATION = Gauge("resmgr_pool_allocation", "Allocation including slack, in units of the kind.", _BY_KIND)
SLACK = Gauge("resmgr_pool_slack_allocation", "Allocation of revocable tasks.", _BY_KIND)
ENTITLEMENT = Gauge("resmgr_pool_entitlement", "Entitlement of the pool.", _BY_KIND)
DEMAND = Gauge("resmgr_pool_demand", "Requests of queued gangs.", _BY_KIND)
RESERVATION = Gauge("resmgr_pool_reservation", "Configured reservation.", _BY_KIND)
LIMIT = Gauge("resmgr_pool_limit", "Configured limit.", _BY_KIND)
PENDING = Gauge("resmgr_pool_pending", "Gangs in the pool's queues, and gangs set aside.", ["pool", "queue"])
READY = Gauge("resmgr_ready_gangs", "Admitted gangs that wait for a placement engine.", ["type"])
PLACED = Gauge("resmgr_placements", "Placements that wait for the job manager.")
LEASED = Gauge("resmgr_leased_tasks", "Tasks that are leased to an engine or to the job manager.")
TASKS = Gauge("resmgr_tasks", "Runs held, without orphans.")
ORPHANS = Gauge("resmgr_orphans", "Earlier runs that still hold an allocation.")
PREEMPTED = Counter("resmgr_preempted_tasks", "Preempted tasks.", ["pool", "policy"])
REPAIRED = Counter(
    "resmgr_repaired_tasks",
    "Tasks that differed from the store in two audits in a row, by repair: forgotten, taken in or queued.",
    ["done"],
)
SETTLED = Gauge(
    "resmgr_recovery_settled",
    "1 once all tasks that were stored when this instance was elected are restored or queued, else 0.",
)
_OF_POOLS = (ALLOCATION, SLACK, ENTITLEMENT, DEMAND, RESERVATION, LIMIT, PENDING)


class _Waits(Collector):
    """Collect the histograms of the leaves as last measured."""

    def __init__(self) -> None:
        self._families: Sequence[HistogramMetricFamily] = ()

    def collect(self) -> Iterable[HistogramMetricFamily]:
        return self._families

    def set(self, pools: Sequence[Pool]) -> None:
        ready = HistogramMetricFamily(
            "resmgr_pending_to_ready_seconds", "Time of gangs from queued to admitted.", labels=["pool"]
        )
        running = HistogramMetricFamily(
            "resmgr_pending_to_running_seconds", "Time of runs from enqueued to running.", labels=["pool"]
        )
        for pool in pools:
            ready.add_metric([pool.path], _buckets(pool.to_ready), pool.to_ready.total)
            running.add_metric([pool.path], _buckets(pool.to_running), pool.to_running.total)
        self._families = (ready, running)


WAITS = _Waits()
REGISTRY.register(WAITS)


def _buckets(times: Histogram) -> list[tuple[str, float]]:
    ends = [*map(str, BOUNDS), "+Inf"]
    return list(zip(ends, accumulate(times.counts), strict=True))


class _Measured:
    """Which pools have gauges. Those are dropped when pools change only: it takes long to make them."""

    def __init__(self) -> None:
        self._of: tuple[frozenset[tuple[str, bool]], frozenset[str]] = (frozenset(), frozenset())

    def follow(self, pools: frozenset[tuple[str, bool]], aside: frozenset[str]) -> None:
        """Drop all gauges of pools unless these are the pools, and those with gangs set aside, as before."""
        if self._of != (pools, aside):
            self._of = (pools, aside)
            for gauge in _OF_POOLS:
                gauge.clear()


MEASURED = _Measured()


def measure(scheduler: Scheduler) -> None:
    """Set all gauges and drop those of deleted pools."""
    pools = list(scheduler.tree)
    aside = Counts(gang.pool.path for gang in scheduler.infeasible)
    MEASURED.follow(frozenset((pool.path, pool.leaf) for pool in pools), frozenset(aside))
    for pool in pools:
        _measure_pool(pool, scheduler.pending)
    WAITS.set(list(scheduler.tree.leaves()))
    for path, count in aside.items():
        PENDING.labels(path, scheduler.infeasible.name).set(count)
    for kind, ready in scheduler.ready.items():
        READY.labels(kind.name).set(len(ready))
    PLACED.set(len(scheduler.placements))
    LEASED.set(len(scheduler.leases))
    TASKS.set(len(scheduler.registry))
    ORPHANS.set(len(scheduler.registry.orphans))


async def keep_measuring(scheduler: Scheduler, seconds: float) -> None:
    """Set all gauges periodically."""
    while True:
        measure(scheduler)
        await asyncio.sleep(seconds)


def _measure_pool(pool: Pool, pending: PendingQueues) -> None:
    allocation = pool.allocation()
    _set(ALLOCATION, pool, allocation["total"])
    _set(SLACK, pool, allocation["slack"])
    _set(ENTITLEMENT, pool, Resources(*pool.entitlement))
    _set(DEMAND, pool, pool.total_demand())
    _set(RESERVATION, pool, Resources(*pool.reservation))
    _set(LIMIT, pool, Resources(*pool.limit))
    for queue in pending.of(pool).all if pool.leaf else ():
        PENDING.labels(pool.path, queue.name).set(len(queue))


def _set(gauge: Gauge, pool: Pool, amounts: Resources) -> None:
    for kind, amount in zip(KINDS, amounts.values(), strict=True):
        gauge.labels(pool.path, kind).set(amount / MILLI)

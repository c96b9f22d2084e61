"""Figures of pools and queues, taken periodically rather than on every change."""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import REGISTRY, Counter, Gauge, Metric
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from peloton.model.resources import KINDS, MILLI
from resmgr.core.monitoring.figures import PoolFigures, pool_figures
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.amounts import Vector
from resmgr.core.state.histograms import BOUNDS, Histogram
from resmgr.core.state.queues import NAMES, PendingQueues, PoolQueues

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
_AMOUNTS = {
    "resmgr_pool_allocation": "Allocation including slack, in units of the kind.",
    "resmgr_pool_slack_allocation": "Allocation of revocable tasks.",
    "resmgr_pool_entitlement": "Entitlement of the pool.",
    "resmgr_pool_demand": "Requests of queued gangs.",
    "resmgr_pool_reservation": "Configured reservation.",
    "resmgr_pool_limit": "Configured limit.",
}
"""Gauges by pool and kind."""
Times = tuple[tuple[int, ...], float]
"""The counts and the sum of a histogram."""


class Measured(NamedTuple):
    """A pool at the last measurement."""

    path: str
    amounts: tuple[Vector, ...]
    """In the order of _AMOUNTS, in thousandths."""
    queues: Mapping[str, int]
    """Gangs by the name of the queue; empty unless it is a leaf."""
    times: tuple[Times, Times] | None
    """How long gangs and runs of a leaf waited."""


class _Pools(Collector):
    """Collect the gauges and histograms of pools as last measured.

    What is measured is kept as it is, and becomes samples only when somebody asks: of 1,000 pools there are
    some 60,000.
    """

    def __init__(self) -> None:
        self.measured: Sequence[Measured] = ()

    def collect(self) -> Iterable[Metric]:
        pools = self.measured
        for place, (name, about) in enumerate(_AMOUNTS.items()):
            family = GaugeMetricFamily(name, about, labels=["pool", "kind"])
            for pool in pools:
                for kind, amount in zip(KINDS, pool.amounts[place], strict=True):
                    family.add_metric([pool.path, kind], amount / MILLI)
            yield family
        yield _pending(pools)
        ready = "Time of gangs from queued to admitted."
        yield _histogram("resmgr_pending_to_ready_seconds", ready, pools, 0)
        running = "Time of runs from enqueued to running."
        yield _histogram("resmgr_pending_to_running_seconds", running, pools, 1)


def _pending(pools: Iterable[Measured]) -> GaugeMetricFamily:
    about = "Gangs in the pool's queues, and gangs set aside."
    family = GaugeMetricFamily("resmgr_pool_pending", about, labels=["pool", "queue"])
    for pool in pools:
        for name, count in pool.queues.items():
            family.add_metric([pool.path, name], count)
    return family


def _histogram(name: str, about: str, pools: Iterable[Measured], place: int) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, about, labels=["pool"])
    ends = [*map(str, BOUNDS), "+Inf"]
    for pool in pools:
        if pool.times is not None:
            counts, total = pool.times[place]
            family.add_metric([pool.path], list(zip(ends, accumulate(counts), strict=True)), total)
    return family


POOLS = _Pools()
REGISTRY.register(POOLS)


def measure(scheduler: Scheduler) -> None:
    """Take over the figures of all pools, and set all other gauges."""
    aside = Counts(gang.pool.path for gang in scheduler.infeasible)
    name, pending = scheduler.infeasible.name, scheduler.pending
    POOLS.measured = [
        _measured(each, pending, {name: aside[each.pool.path]} if each.pool.path in aside else {})
        for each in pool_figures(scheduler)
    ]
    for kind, ready in scheduler.ready.items():
        READY.labels(kind.name).set(len(ready))
    PLACED.set(len(scheduler.placements))
    LEASED.set(len(scheduler.leases))
    TASKS.set(len(scheduler.registry))
    ORPHANS.set(len(scheduler.registry.orphans))


async def keep_measuring(scheduler: Scheduler, seconds: float) -> None:
    """Measure periodically."""
    while True:
        measure(scheduler)
        await asyncio.sleep(seconds)


def _measured(figures: PoolFigures, pending: PendingQueues, aside: Mapping[str, int]) -> Measured:
    pool = figures.pool
    return Measured(
        pool.path,
        (
            figures.allocation,
            figures.slack,
            pool.usable(),
            figures.demand,
            pool.reservation,
            pool.limit,
        ),
        {**_lengths(pending.of_whole(pool)), **aside} if pool.leaf else aside,
        (_times(pool.to_ready), _times(pool.to_running)) if pool.leaf else None,
    )


def _lengths(of_classes: Sequence[PoolQueues]) -> Mapping[str, int]:
    if not of_classes:
        return _EMPTY
    return {name: sum(len(queues.all[at]) for queues in of_classes) for at, name in enumerate(NAMES)}


_EMPTY = dict.fromkeys(NAMES, 0)


def _times(histogram: Histogram) -> Times:
    return tuple(histogram.counts), histogram.total

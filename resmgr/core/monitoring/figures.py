"""Amounts of all pools, and the gangs in the queues of one. Reads the scheduler and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from peloton.model.ids import PoolId
from peloton.model.states import TaskState
from resmgr.core.admission.checks import Check, refusal
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.amounts import NOTHING, Vector, plus, vector
from resmgr.core.state.entities import Gang
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import NAMES

POOL_SERIES = ("entitlement", "allocation", "slack", "demand")
"""What a sample of a pool holds, each for all kinds."""
CLUSTER_SERIES = ("running", "waiting", "started", "ended")
"""What a sample of the cluster holds behind its capacity."""
WAITING = (TaskState.PENDING, TaskState.READY, TaskState.PLACING, TaskState.RESERVED)
MOST_EXAMINED = 100_000
"""Gangs of a queue that are passed over to find those that are shown."""


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """A pool's amounts, in thousandths; of its subtree."""

    pool: Pool
    tasks: int
    waiting: int
    """Gangs."""
    allocation: Vector
    slack: Vector
    demand: Vector


@dataclass(frozen=True, slots=True)
class QueuedGang:
    """A gang in a queue."""

    position: int
    gang: Gang
    why: str


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of a pool, with the gangs that were asked for."""

    name: str
    length: int
    gangs: Sequence[QueuedGang]


def pool_figures(scheduler: Scheduler) -> list[PoolFigures]:
    """Return the figures of all pools, parents before their children."""
    pools = list(scheduler.tree)
    tasks = {pool.id: pool.tasks for pool in pools}
    waiting = dict.fromkeys(tasks, 0)
    for pool, gangs in scheduler.pending.active.items():
        waiting[pool.id] += len(gangs)
    for gang in scheduler.infeasible:
        waiting[gang.pool.id] += 1
    demand = {pool.id: _demand(pool) for pool in pools}
    for pool in reversed(pools):
        if pool.parent is not None:
            above, own = pool.parent.id, demand[pool.id]
            tasks[above] += tasks[pool.id]
            waiting[above] += waiting[pool.id]
            if own is not NOTHING:
                demand[above] = plus(demand[above], own)
    return [
        PoolFigures(
            pool,
            tasks[pool.id],
            waiting[pool.id],
            allocation(pool),
            vector(pool.slack),
            demand[pool.id],
        )
        for pool in pools
    ]


def _demand(pool: Pool) -> Vector:
    """Return what the gangs in a leaf's queues ask for."""
    if not any(pool.demand) and not any(pool.slack_demand):
        return NOTHING
    return plus(vector(pool.demand), vector(pool.slack_demand))


@dataclass(slots=True)
class InfeasibleJob:
    """A job with gangs that nothing that is here could take."""

    job_id: str
    pool: Pool
    gangs: int
    why: str
    """Of the first gang."""


def infeasible_jobs(scheduler: Scheduler, most: int) -> list[InfeasibleJob]:
    """Return the jobs of the gangs that are set aside, the first `most` of them."""
    found: dict[str, InfeasibleJob] = {}
    for gang in islice(scheduler.infeasible, MOST_EXAMINED):
        first = gang.tasks[0]
        job = found.get(first.job.id)
        if job is not None:
            job.gangs += 1
        elif len(found) < most:
            found[first.job.id] = InfeasibleJob(first.job.id, gang.pool, 1, first.reason)
    return list(found.values())


def oversized_jobs(scheduler: Scheduler, most: int) -> list[InfeasibleJob]:
    """Return the jobs at the heads of queues with gangs that are larger than what their pool may ever give.

    That is the reservation for those that are not preemptible, and the limit of controllers.
    """
    found: dict[str, InfeasibleJob] = {}
    for pool, queues in scheduler.pending.active.items():
        for queue in queues.all:
            gang = queue.head()
            refused = None if gang is None else refusal(gang.charge, pool, scheduler.limits.preemption)
            if gang is None or refused is None or refused.gang <= refused.bound:
                continue
            if refused.check in (Check.RESERVATION, Check.CONTROLLER) and len(found) < most:
                job_id = gang.tasks[0].job.id
                found.setdefault(job_id, InfeasibleJob(job_id, pool.whole, 1, str(refused)))
    return list(found.values())


def allocation(pool: Pool) -> Vector:
    """Return what all tasks hold, revocable ones included."""
    cpu, memory, disk, gpu = pool.used
    return cpu + pool.slack[0], memory, disk, gpu


def pool_samples(figures: Sequence[PoolFigures]) -> dict[PoolId, list[float]]:
    """Return a sample of each pool: POOL_SERIES in the units of the kinds."""
    return {
        each.pool.id: [
            amount / 1000
            for amounts in (each.pool.usable(), each.allocation, each.slack, each.demand)
            for amount in amounts
        ]
        for each in figures
    }


def cluster_sample(scheduler: Scheduler, started: float, ended: float) -> list[float]:
    """Return a sample of the cluster: its capacity, then CLUSTER_SERIES; started and ended are per second."""
    states = scheduler.registry.states
    capacity = scheduler.tree.capacity
    amounts = [amount / 1000 for amount in capacity.values()] if capacity is not None else [float("nan")] * 4
    waiting = sum(states[state] for state in WAITING)
    return [*amounts, float(states[TaskState.RUNNING]), float(waiting), started, ended]


def queues(scheduler: Scheduler, pool: Pool, offset: int, limit: int) -> list[Queue]:
    """Return the queues of a leaf, each with up to `limit` gangs behind the first `offset`."""
    found = []
    of_classes = scheduler.pending.of_whole(pool)
    for at, name in enumerate(NAMES):
        queued = [queues.all[at] for queues in of_classes]
        heads = {queue.head() for queue in queued}
        gangs = [
            QueuedGang(position, gang, _why(scheduler, name, gang, gang in heads))
            for position, gang in islice(enumerate(chain(*queued), 1), offset, offset + limit)
        ]
        found.append(Queue(name, sum(map(len, queued)), gangs))
    aside = list(_aside(scheduler, pool))
    shown = [
        QueuedGang(position, gang, gang.tasks[0].reason)
        for position, gang in enumerate(aside[offset : offset + limit], offset + 1)
    ]
    return [*found, Queue(scheduler.infeasible.name, len(aside), shown)]


def _aside(scheduler: Scheduler, pool: Pool) -> Iterator[Gang]:
    return (gang for gang in islice(scheduler.infeasible, MOST_EXAMINED) if gang.pool is pool)


def _why(scheduler: Scheduler, queue: str, gang: Gang, head: bool) -> str:
    if scheduler.tree.capacity is None:
        return "the cluster's capacity is not known yet"
    if head:
        refused = refusal(gang.charge, gang.pool, scheduler.limits.preemption)
        return str(refused) if refused is not None else "it is admitted in the next cycle"
    return gang.tasks[0].reason or f"behind the head of the queue {queue}"

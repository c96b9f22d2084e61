"""What is being done for a gang that waits: preemption in pools that are over their entitlement."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from peloton.model.resources import KINDS
from peloton.model.states import TaskState
from resmgr.core.admission.checks import SHARED, FailedCheck
from resmgr.core.preemption.snapshot import held_and_entitled
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Task
from resmgr.core.state.pool import Pool

MOST_POOLS = 10
"""Most entries, the largest excess first."""
_WAITS = frozenset({TaskState.PENDING, TaskState.READY, TaskState.PLACING, TaskState.RESERVED})


@dataclass(frozen=True, slots=True)
class Excess:
    """A pool that holds more than its entitlement of what a gang waits for. Amounts are thousandths."""

    pool: str
    kind: str
    slack: bool
    """Whether the amounts are those of revocable tasks."""
    allocation: int
    entitlement: int
    checks: int | None
    """Further checks until its tasks are preempted, if it stays so; None: its policies forbid it, or it holds
    nothing that is preemptible."""
    due: float
    """When the last one of these comes, on the monotonic clock; 0.0 where that is not known."""
    leaving: int
    """Its tasks that are being preempted for other pools now."""
    hosts: str = ""
    """The class of hosts whose amounts these are; empty: all hosts."""


def outlook(scheduler: Scheduler, task: Task, check: FailedCheck | None) -> list[Excess]:
    """Return the pools whose excess would help a waiting task's gang, the largest excess first.

    `check` is what admission refuses. Where that is a bound of the gang's own pool, or not one that depends
    on other pools, nothing that others give back helps.
    """
    gang = task.gang
    if gang is None or task.state not in _WAITS or not scheduler.limits.preemption:
        return []
    own = task.pool.part(gang.charge)
    if check is not None and (check.check not in SHARED or check.path == own.path):
        return []
    wanted = gang.charge.slack if gang.charge.slack is not None else gang.charge.entitled
    kinds = {kind for kind, amount in zip(KINDS, wanted, strict=True) if amount}
    found = [
        excess
        for leaf in scheduler.tree.leaves()
        if leaf is not task.pool
        for part in leaf.divided()
        if part.hosts == own.hosts
        for excess in _excesses(scheduler, part, kinds if check is None else kinds & {check.kind})
    ]
    found.sort(key=lambda each: each.entitlement - each.allocation)
    return found[:MOST_POOLS]


def _excesses(scheduler: Scheduler, pool: Pool, kinds: Collection[str]) -> Iterator[Excess]:
    preemptor, fixed = scheduler.preemptor, pool.whole.non_preemptible
    for i, (have, may) in enumerate(held_and_entitled(pool)):
        kind = KINDS[i % len(KINDS)]
        if have <= may or kind not in kinds:
            continue
        slack = i >= len(KINDS)
        checks = preemptor.checks_left(pool) if slack or have > fixed[i] else None
        due = 0.0 if checks is None else preemptor.time_of(checks)
        yield Excess(pool.path, kind, slack, have, may, checks, due, preemptor.leaving(pool), pool.hosts)

"""Which of the tasks that are being preempted are not needed any more, and which services take no more.

A gang is spared where its pool, with the gang counted again, is within its entitlement and has room for the
gangs of its own that wait for what the preemption frees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from heapq import nlargest
from operator import attrgetter
from typing import NamedTuple

from peloton.model.ids import JobId
from peloton.model.states import TaskState
from resmgr.core.preemption.same_pool import amounts_of, room_of
from resmgr.core.state.amounts import Charge
from resmgr.core.state.entities import JobTasks, Task
from resmgr.core.state.pool import Pool

KEPT_SECONDS = 30.0
"""How long no task of a service is chosen that has kept one because of its SLA."""
BOUND_SECONDS = 600.0
"""How long no more tasks of it are chosen at a time than it has let go before."""


def unneeded(pool: Pool, marked: Sequence[Charge], waiting: Iterable[Charge]) -> list[int]:
    """Return the positions of the gangs of a pool that are spared, the last ones of `marked` first.

    `marked` are the gangs that are being preempted, whose amounts the pool still counts; `waiting` the gangs
    of the pool for which some of them were chosen and which still wait.
    """
    room = room_of(pool)
    for charge in marked:
        room = [has + amount for has, amount in zip(room, amounts_of(charge), strict=True)]
    for charge in waiting:
        room = [has - amount for has, amount in zip(room, amounts_of(charge), strict=True)]
    spared = []
    for at in reversed(range(len(marked))):
        amounts = amounts_of(marked[at])
        if all(not amount or amount <= has for amount, has in zip(amounts, room, strict=True)):
            room = [has - amount for has, amount in zip(room, amounts, strict=True)]
            spared.append(at)
    return spared


class _Kept(NamedTuple):
    """What a service let go of the tasks that were chosen last."""

    at: float
    let_go: int


@dataclass(slots=True)
class ServiceLimits:
    """How many tasks of services may be chosen. `now` is monotonic seconds."""

    _kept: dict[JobId, _Kept] = field(default_factory=dict)

    def note(self, job_id: JobId, let_go: int, now: float) -> None:
        """Note that a service has kept tasks because of its SLA, and let that many go."""
        self._kept[job_id] = _Kept(now, let_go)

    def expire(self, now: float) -> None:
        """Forget what was noted long ago."""
        self._kept = {job: kept for job, kept in self._kept.items() if now - kept.at < BOUND_SECONDS}

    def bars(self, leaving: Iterable[JobId], spared: Set[Task], now: float) -> Bars:
        """Return which tasks may not be chosen now.

        `leaving` are the jobs of the tasks that are being preempted already. Those `spared` in this check are
        not chosen in it: else they would come and go as long as it is close whether they are needed.
        """
        left = {
            job: 0 if now - kept.at < KEPT_SECONDS else max(1, kept.let_go)
            for job, kept in self._kept.items()
        }
        for job in leaving:
            if job in left:
                left[job] -= 1
        return Bars(left, spared)


class Bars:
    """Tells which tasks of services may not be chosen, and counts those that may."""

    def __init__(self, kept: dict[JobId, int], spared: Set[Task]) -> None:
        """`kept` has how many more tasks of services may be chosen that have kept some."""
        self._kept = kept
        self._spared = spared
        self._expendable: dict[JobId, frozenset[Task]] = {}

    def __call__(self, task: Task) -> bool:
        """Return whether the task may not be chosen; count it where it may."""
        if task in self._spared:
            return True
        job, limit = task.job, task.needs.max_unavailable
        if limit and task.state is TaskState.RUNNING:
            if job.id not in self._expendable:
                self._expendable[job.id] = expendable(job, limit)
            if task not in self._expendable[job.id]:
                return True
        left = self._kept.get(job.id)
        if left is None:
            return False
        self._kept[job.id] = left - 1
        return left <= 0


def expendable(job: JobTasks, limit: int) -> frozenset[Task]:
    """Return the running tasks of a service that its SLA lets go now, those that started last.

    `limit` instances may be unavailable, and those that do not run are. The resource manager does not know of
    instances that wait after failures: the job manager keeps what is too much then.
    """
    running = [task for task in job.tasks.values() if task.state is TaskState.RUNNING]
    left = limit - (len(job.tasks) - len(running))
    return frozenset(nlargest(max(left, 0), running, key=attrgetter("since")))

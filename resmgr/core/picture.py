"""The scheduler's state as preemption looks at it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState
from resmgr.core.entitlement import firm
from resmgr.core.lifecycle import Lifecycle
from resmgr.core.pools import Pool, PoolTree
from resmgr.core.preemption.view import Candidates, PoolView, View, Waiting
from resmgr.core.tasks import Charge, Needs, Task, Vector

FIRST_GANGS = 100
"""Of each queue, so many gangs may take the place of others in one check."""
_LEAVING = frozenset({TaskState.PREEMPTING, TaskState.KILLING})


def picture(scheduler: Lifecycle, tree: PoolTree) -> View:
    """All leaves, without candidates."""
    leaves = list(tree.leaves())
    leaving = _leaving(scheduler, {pool for pool in leaves if pool.waiting or _may_be_over(pool)})
    fixed = scheduler.policy.preemption
    return View(tuple(_pool(pool, leaving.get(pool, ()), fixed) for pool in leaves))


def with_candidates(scheduler: Lifecycle, view: View, paths: Collection[str]) -> View:
    """The same view with the tasks of some pools."""
    held: dict[str, list[Task]] = {path: [] for path in paths}
    for task in scheduler.registry:
        of_pool = held.get(task.pool.path)
        if of_pool is not None and task.state is not TaskState.PENDING and task.state not in _LEAVING:
            of_pool.append(task)
    return View(
        tuple(
            replace(pool, candidates=_candidates(held[pool.path])) if held.get(pool.path) else pool
            for pool in view.pools
        )
    )


def _leaving(scheduler: Lifecycle, pools: Collection[Pool]) -> dict[Pool, list[Charge]]:
    """What holds allocation in these pools but not for long: also orphans, which are killed if they live."""
    found: dict[Pool, list[Charge]] = {}
    if not pools:
        return found
    on_the_way_out = (task for task in scheduler.registry if task.state in _LEAVING)
    for task in chain(on_the_way_out, scheduler.registry.orphans.values()):
        if task.pool in pools:
            found.setdefault(task.pool, []).append(task.needs.charge)
    return found


def _may_be_over(pool: Pool) -> bool:
    slack_over = any(have > may for have, may in zip(pool.slack, pool.slack_entitlement, strict=True))
    return slack_over or any(have > may for have, may in zip(firm(pool), _not_slack(pool), strict=True))


def _not_slack(pool: Pool) -> Vector:
    """The part of the entitlement for tasks that are not revocable."""
    whole, slack = pool.entitlement, pool.slack_entitlement
    return whole[0], whole[1] - slack[1], whole[2] - slack[2], whole[3] - slack[3]


def _pool(pool: Pool, leaving: Iterable[Charge], fixed: bool) -> PoolView:
    gone = list(leaving)
    allocation = _less(firm(pool), (charge.firm for charge in gone))
    slack = _less(pool.slack, (charge.slack for charge in gone))
    used = _less(pool.used, (charge.entitled for charge in gone))
    controller = _less(pool.controller, (charge.controller for charge in gone))
    reserved = _less(pool.non_preemptible, (charge.non_preemptible for charge in gone))
    limit = pool.controller_limit
    return PoolView(
        path=pool.path,
        allocation=allocation,
        entitlement=_not_slack(pool),
        slack_allocation=slack,
        slack_entitlement=pool.slack_entitlement,
        demand=_vector(pool.demand),
        slack_demand=_vector(pool.slack_demand),
        room=_less(pool.entitlement, (used,)),
        slack_room=_less(pool.slack_entitlement, (slack,)),
        fixed_room=_less(pool.reservation, (reserved,)) if fixed else None,
        controller_room=None if limit is None else _less(limit, (controller,)),
        queues=tuple(
            tuple(
                Waiting(gang.tasks[0].key, gang.priority, gang.charge) for gang in islice(queue, FIRST_GANGS)
            )
            for queue in pool.queues
            if queue
        ),
    )


class _Runs(Sequence[Run]):
    """Made when they are asked for: only those of victims are."""

    __slots__ = ("_tasks",)

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> _Runs: ...
    def __getitem__(self, index: int | slice) -> Run | _Runs:
        if isinstance(index, slice):
            return _Runs(self._tasks[index])
        return self._tasks[index].key


def _candidates(tasks: Sequence[Task]) -> Candidates:
    """Column by column; what tasks have in common is looked up once."""
    count = len(tasks)
    numbers: dict[Needs, int] = {}
    rows = np.fromiter((numbers.setdefault(task.needs, len(numbers)) for task in tasks), np.int64, count)
    return Candidates(
        runs=_Runs(tasks),
        gang=_gangs(tasks),
        amount=np.array([needs.resources.values() for needs in numbers], dtype=np.int64)[rows],
        state=np.fromiter((task.state for task in tasks), np.int64, count),
        priority=np.array([needs.priority for needs in numbers], dtype=np.int64)[rows],
        started=np.fromiter((task.since for task in tasks), np.float64, count),
        eligible=np.array([needs.preemptible for needs in numbers], dtype=np.bool_)[rows],
        revocable=np.array([needs.revocable for needs in numbers], dtype=np.bool_)[rows],
    )


def _gangs(tasks: Sequence[Task]) -> NDArray[np.int64]:
    """A number for each gang: the first member's row."""
    gangs = np.arange(len(tasks))
    first: dict[tuple[JobId, int], int] = {}
    for row, task in enumerate(tasks):
        of_job = task.job.gangs
        if of_job and task.instance in of_job:
            gangs[row] = first.setdefault((task.job.id, of_job[task.instance]), row)
    return gangs


def _less(amounts: Iterable[int], parts: Iterable[Vector | None]) -> Vector:
    cpu, memory, disk, gpu = amounts
    for part in parts:
        if part is not None:
            cpu, memory, disk, gpu = cpu - part[0], memory - part[1], disk - part[2], gpu - part[3]
    return cpu, memory, disk, gpu


def _vector(amounts: Iterable[int]) -> Vector:
    return _less(amounts, ())

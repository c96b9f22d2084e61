"""Snapshots of the scheduler's state for preemption, taken in steps.

The state changes between two steps; each task and each pool is read at one moment. A task that moved since
the check began is not preempted; the next check sees other changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import overload

import numpy as np
from numpy.typing import NDArray

from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState
from resmgr.core.preemption.view import Candidates, PoolView, View, Waiting
from resmgr.core.state.amounts import Charge, Vector, less, vector
from resmgr.core.state.cooperative import Steps
from resmgr.core.state.entities import Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.needs import Needs
from resmgr.core.state.pools import Pool, PoolTree
from resmgr.core.state.queues import PoolQueues
from resmgr.core.state.registry import Registry

FIRST_GANGS = 100
"""Gangs of each queue that may replace others in one check."""
_AT_ONCE = 10_000
"""Tasks examined in one step."""
_POOLS_AT_ONCE = 50
_LEAVING = frozenset({TaskState.PREEMPTING, TaskState.KILLING})
Started = NDArray[np.float64]
_NO_CANDIDATES = _LEAVING | {TaskState.PENDING, TaskState.DELETED}


def take_snapshot(lifecycle: Lifecycle, tree: PoolTree, sums: PoolTree | None = None) -> Steps[View]:
    """Return a view of all leaves, without candidates.

    `sums` is a copy of the tree to take allocation, demand and entitlement from; None: the tree itself.
    """
    leaves = list(tree.leaves())
    pending = lifecycle.pending
    counted = {pool: pool if sums is None else sums.get(pool.id) for pool in leaves}
    relevant = {pool for pool in leaves if len(pending.of(pool)) or over(counted[pool])}
    leaving = yield from _leaving(lifecycle.registry, relevant)
    fixed = lifecycle.policy.preemption
    seen: list[PoolView] = []
    for at, pool in enumerate(leaves):
        seen.append(_pool(counted[pool], pending.of(pool), leaving.get(pool, ()), fixed))
        if at % _POOLS_AT_ONCE == _POOLS_AT_ONCE - 1:
            yield
    return View(tuple(seen))


def with_candidates(registry: Registry, view: View, paths: Collection[str], now: float) -> Steps[View]:
    """Return the view with the tasks of some pools; `now` is when the check began."""
    held = {path: _Columns(now) for path in paths}
    for tasks in _in_parts(registry):
        of_pools: dict[str, list[Task]] = {}
        for task in tasks:
            path = task.pool.path
            if path in held and task.state not in _NO_CANDIDATES and not task.orphan:
                of_pools.setdefault(path, []).append(task)
        for path, ours in of_pools.items():
            held[path].add(ours)
        yield
    pools: list[PoolView] = []
    for pool in view.pools:
        columns = held.get(pool.path)
        if columns:
            candidates = yield from columns.joined()
            pool = replace(pool, candidates=candidates)
        pools.append(pool)
    return View(tuple(pools))


def over(pool: Pool) -> bool:
    """Return whether a pool holds more than it is entitled to, including tasks that are leaving."""
    slack_over = any(have > may for have, may in zip(pool.slack, pool.slack_entitlement, strict=True))
    return slack_over or any(have > may for have, may in zip(pool.firm(), _not_slack(pool), strict=True))


def _in_parts(registry: Registry) -> Iterator[list[Task]]:
    """Iterate over all tasks except orphans in parts. Some may have ended since their part began."""
    part: list[Task] = []
    for job in list(registry.jobs.values()):
        tasks = list(job.tasks.values())
        for at in range(0, len(tasks), _AT_ONCE):
            part += tasks[at : at + _AT_ONCE]
            if len(part) >= _AT_ONCE:
                yield part
                part = []
    yield part


def _leaving(registry: Registry, pools: Collection[Pool]) -> Steps[dict[Pool, list[Charge]]]:
    """Return the charges in these pools that end soon, orphans included: those are killed if they live."""
    found: dict[Pool, list[Charge]] = {}
    if not pools:
        return found
    for tasks in _in_parts(registry):
        for task in tasks:
            if task.state in _LEAVING and not task.orphan and task.pool in pools:
                found.setdefault(task.pool, []).append(task.needs.charge)
        yield
    for task in registry.orphans.values():
        if task.pool in pools:
            found.setdefault(task.pool, []).append(task.needs.charge)
    return found


def _not_slack(pool: Pool) -> Vector:
    """Return the part of the entitlement for tasks that are not revocable."""
    return pool.firm_entitlement or pool.entitlement


def _pool(pool: Pool, queues: PoolQueues, leaving: Iterable[Charge], fixed: bool) -> PoolView:
    charges = list(leaving)
    allocation = less(pool.firm(), (charge.firm for charge in charges))
    slack = less(pool.slack, (charge.slack for charge in charges))
    used = less(pool.used, (charge.entitled for charge in charges))
    controller = less(pool.controller, (charge.controller for charge in charges))
    reserved = less(pool.non_preemptible, (charge.non_preemptible for charge in charges))
    limit, firm = pool.controller_limit, pool.firm_entitlement
    return PoolView(
        path=pool.path,
        allocation=allocation,
        entitlement=_not_slack(pool),
        slack_allocation=slack,
        slack_entitlement=pool.slack_entitlement,
        demand=vector(pool.demand),
        slack_demand=vector(pool.slack_demand),
        room=less(pool.entitlement, (used,)),
        slack_room=less(pool.slack_entitlement, (slack,)),
        firm_room=None if firm is None else less(firm, (allocation,)),
        fixed_room=less(pool.reservation, (reserved,)) if fixed else None,
        controller_room=None if limit is None else less(limit, (controller,)),
        queues=tuple(
            tuple(
                Waiting(gang.tasks[0].key, gang.priority, gang.charge) for gang in islice(queue, FIRST_GANGS)
            )
            for queue in queues.all
            if queue
        ),
    )


class _Runs(Sequence[Run]):
    """Ids of runs, built on access: only those of victims are needed."""

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


class _Columns:
    """The candidates of one pool while they are gathered; needs that tasks share are looked up once."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._tasks: list[Task] = []
        self._needs: dict[Needs, int] = {}
        self._first: dict[tuple[JobId, int], int] = {}
        """The row of each gang's first member."""
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Started]] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, tasks: Sequence[Task]) -> None:
        count, numbers = len(tasks), self._needs
        needs = np.fromiter((numbers.setdefault(task.needs, len(numbers)) for task in tasks), np.int64, count)
        state = np.fromiter((task.state for task in tasks), np.int64, count)
        started = np.fromiter((task.since for task in tasks), np.float64, count)
        self._parts.append((needs, self._gangs(tasks), state, started))
        self._tasks += tasks

    def joined(self) -> Steps[Candidates]:
        needs, gang, state, started = map(np.concatenate, zip(*self._parts, strict=True))
        yield
        amount = np.array([each.resources.values() for each in self._needs], dtype=np.int64)[needs]
        yield
        priority = np.array([each.priority for each in self._needs], dtype=np.int64)[needs]
        preemptible = np.array([each.preemptible for each in self._needs], dtype=np.bool_)[needs]
        revocable = np.array([each.revocable for each in self._needs], dtype=np.bool_)[needs]
        return Candidates(
            runs=_Runs(self._tasks),
            gang=gang,
            amount=amount,
            state=state,
            priority=priority,
            started=started,
            eligible=preemptible & (started <= self._now),
            revocable=revocable,
        )

    def _gangs(self, tasks: Sequence[Task]) -> NDArray[np.int64]:
        """Return a number for each gang: the first member's row."""
        before = len(self._tasks)
        gangs = np.arange(before, before + len(tasks))
        for row, task in enumerate(tasks):
            of_job = task.job.gangs
            if of_job and task.instance in of_job:
                key = task.job.id, of_job[task.instance]
                gangs[row] = self._first.setdefault(key, before + row)
        return gangs

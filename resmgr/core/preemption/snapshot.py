"""Snapshots of the scheduler's state for preemption, taken in steps.

The state changes between two steps; each task and each pool is read at one moment. A task that moved since
the check began is not preempted; the next check sees other changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolTree
from resmgr.core.state.queues import PoolQueues
from resmgr.core.state.registry import Registry

FIRST_GANGS = 100
"""Gangs of each queue that may replace others in one check."""
_AT_ONCE = 10_000
"""Tasks examined in one step."""
_POOLS_AT_ONCE = 50
_LEAVING = frozenset({TaskState.PREEMPTING, TaskState.KILLING})
Started = NDArray[np.float64]
NOT_SAVED: Mapping[Task, float] = {}
_NO_CANDIDATES = _LEAVING | {TaskState.PENDING, TaskState.DELETED}


def take_snapshot(lifecycle: Lifecycle, tree: PoolTree, sums: PoolTree | None = None) -> Steps[View]:
    """Return a view of all leaves, or of their parts in the classes of hosts, without candidates.

    `sums` is a copy of the tree to take allocation, demand and entitlement from; None: the tree itself.
    """
    leaves = [part for leaf in tree.leaves() for part in leaf.divided()]
    pending = lifecycle.pending
    counted = {pool: pool if sums is None else sums.counterpart(pool) for pool in leaves}
    relevant = {pool for pool in leaves if len(pending.of(pool)) or over(counted[pool])}
    leaving = yield from _leaving(lifecycle.registry, relevant)
    fixed = lifecycle.limits.preemption
    seen: list[PoolView] = []
    for at, pool in enumerate(leaves):
        seen.append(_pool(counted[pool], pending.of(pool), leaving.get(pool, ()), fixed))
        if at % _POOLS_AT_ONCE == _POOLS_AT_ONCE - 1:
            yield
    return View(tuple(seen))


def with_candidates(
    registry: Registry,
    view: View,
    paths: Collection[str],
    now: float,
    barred: Callable[[Task], bool] | None = None,
) -> Steps[View]:
    """Return the view with the tasks of some pools, by key; `now` is when the check began.

    Tasks that are `barred` are not eligible.
    """
    held = {path: _Columns(now, barred, registry.saved) for path in paths}
    classed = any(pool.hosts for pool in view.pools)
    mixed = _MixedGangs()
    for tasks in _in_parts(registry):
        of_pools: dict[str, list[Task]] = {}
        for task in tasks:
            path = mixed.key_of(task) if classed else task.pool.path
            if path in held and task.state not in _NO_CANDIDATES and not task.orphan:
                of_pools.setdefault(path, []).append(task)
        for path, ours in of_pools.items():
            held[path].add(ours)
        yield
    pools: list[PoolView] = []
    for pool in view.pools:
        columns = held.get(pool.key)
        if columns:
            candidates = yield from columns.joined()
            pool = replace(pool, candidates=candidates)
        pools.append(pool)
    return View(tuple(pools))


def over(pool: Pool) -> bool:
    """Return whether a pool holds more than it is entitled to, including tasks that are leaving."""
    return any(have > may for have, may in held_and_entitled(pool))


def held_and_entitled(pool: Pool) -> list[tuple[int, int]]:
    """Return 8 pairs in thousandths, in the order of SIDES, including tasks that are leaving."""
    return [
        *zip(pool.firm(), _not_slack(pool), strict=True),
        *zip(pool.slack, pool.slack_entitlement, strict=True),
    ]


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
            if task.state in _LEAVING and not task.orphan:
                pool = task.pool.part(task.needs.charge)
                if pool in pools:
                    found.setdefault(pool, []).append(task.needs.charge)
        yield
    for task in registry.orphans.values():
        pool = task.pool.part(task.needs.charge)
        if pool in pools:
            found.setdefault(pool, []).append(task.needs.charge)
    return found


def _not_slack(pool: Pool) -> Vector:
    """Return the part of the entitlement for tasks that are not revocable."""
    return pool.firm_entitlement or pool.entitlement


def _pool(pool: Pool, queues: PoolQueues, leaving: Iterable[Charge], fixed: bool) -> PoolView:
    charges = list(leaving)
    allocation = less(pool.firm(), (charge.firm for charge in charges))
    slack = less(pool.slack, (charge.slack for charge in charges))
    used = less(pool.used, (charge.entitled for charge in charges))
    whole = pool.whole
    controller = less(whole.controller, (charge.controller for charge in charges))
    reserved = less(whole.non_preemptible, (charge.non_preemptible for charge in charges))
    limit, firm = whole.controller_limit, pool.firm_entitlement
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
        fixed_room=less(whole.reservation, (reserved,)) if fixed else None,
        controller_room=None if limit is None else less(limit, (controller,)),
        queues=tuple(
            tuple(
                Waiting(gang.tasks[0].key, gang.priority, gang.charge) for gang in islice(queue, FIRST_GANGS)
            )
            for queue in queues.all
            if queue
        ),
        hosts=pool.hosts,
    )


def key_of(pool: Pool) -> str:
    """Return the key of a leaf's view, or of that of its part in a class of hosts."""
    return f"{pool.path} on {pool.hosts}" if pool.hosts else pool.path


class _MixedGangs:
    """The views to which tasks belong; tasks of gangs in several classes of hosts belong to none.

    Part of such a gang would be taken, which is never done.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[JobId, int], bool] = {}

    def key_of(self, task: Task) -> str:
        """Return the key of the view of a task, empty for none."""
        job, part = task.job, task.pool.part(task.needs.charge)
        number = job.gangs.get(task.instance) if job.gangs else None
        if number is not None:
            mixed = self._known.get((job.id, number))
            if mixed is None:
                members = (job.tasks.get(instance) for instance, of in job.gangs.items() if of == number)
                parts = {each.pool.part(each.needs.charge) for each in members if each is not None}
                mixed = self._known[job.id, number] = len(parts) > 1
            if mixed:
                return ""
        return key_of(part)


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

    def __init__(
        self,
        now: float,
        barred: Callable[[Task], bool] | None = None,
        saved: Mapping[Task, float] = NOT_SAVED,
    ) -> None:
        self._now = now
        self._saved = saved
        self._barred = barred
        self._open: list[NDArray[np.bool_]] = []
        """Whether each task is not barred."""
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
        if self._barred is not None:
            barred = self._barred
            self._open.append(np.fromiter((not barred(task) for task in tasks), np.bool_, count))
        self._tasks += tasks

    def joined(self) -> Steps[Candidates]:
        needs, gang, state, started = map(np.concatenate, zip(*self._parts, strict=True))
        yield
        amount = np.array([each.resources.values() for each in self._needs], dtype=np.int64)[needs]
        yield
        priority = np.array([each.priority for each in self._needs], dtype=np.int64)[needs]
        preemptible = np.array([each.preemptible for each in self._needs], dtype=np.bool_)[needs]
        revocable = np.array([each.revocable for each in self._needs], dtype=np.bool_)[needs]
        extra = np.array([each.extra for each in self._needs], dtype=np.bool_)[needs]
        if self._open:
            preemptible &= np.concatenate(self._open)
        saved, times = None, self._saved
        if times:
            at = (times.get(task, task.since) for task in self._tasks)
            saved = np.maximum(started, np.fromiter(at, np.float64, len(self._tasks)))
        return Candidates(
            runs=_Runs(self._tasks),
            gang=gang,
            amount=amount,
            state=state,
            priority=priority,
            started=started,
            eligible=preemptible & (started <= self._now),
            revocable=revocable,
            extra=extra,
            saved=saved,
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

"""Place groups of equal gangs on hosts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placement.core.filters import Filters
from placement.core.fragmentation import Fragmentation
from placement.core.groups import Group
from placement.core.labels import Column, Mask, Rows, about_tasks
from placement.core.model import Gang, Missing, Needs, Task
from placement.core.policy import Policy, Scorer
from placement.core.scorers import best, highest, ordered, shares
from placement.core.table import LAUNCHES, HostTable, Want

FIRST_ROWS = 1024
_OTHER_SCORERS = (Scorer.FIRST_FIT, Scorer.EMPTIEST)
"""Tried for a gang that depends on the order in which its tasks are placed."""


class Placer:
    """Places tasks on the hosts of a table."""

    def __init__(self, table: HostTable, policy: Policy, gangs: Sequence[Gang]) -> None:
        self.table = table
        self.filters = Filters(table, policy)
        self._gangs = gangs
        self._fragmentation: Fragmentation | None = None
        """Made when hosts are compared by it."""
        self._policy = policy
        self._reach = min(FIRST_ROWS, len(table))
        """Rows that are examined first with BEST_FIT."""
        self._done: list[tuple[Want, Rows, Column]] = []
        """What was placed since the last gang was complete."""

    def place(self, group: Group) -> tuple[int, Missing]:
        """Place gangs of a group in order; return how many have a place, and what the next one misses."""
        if len(group.parts) == 1 and len(group.gangs[0].tasks) == 1:
            want = group.parts[0][0]
            tasks = [gang.tasks[0] for gang in group.gangs]
            count = self._put(want, tasks, self._policy.scorer, group)
            self._done.clear()
            return count, ((want.needs, 1),)
        for count, gang in enumerate(group.gangs):
            missing = self._whole(group, gang)
            if missing:
                return count, missing
        return len(group.gangs), ()

    def _whole(self, group: Group, gang: Gang) -> Missing:
        """Place all tasks of a gang and return nothing; or change nothing and return what found no room."""
        missing = self._try(group, gang, self._policy.scorer)
        if missing and (len(group.parts) > 1 or group.depends_on_tasks):
            others = (scorer for scorer in _OTHER_SCORERS if scorer is not self._policy.scorer)
            if any(not self._try(group, gang, scorer) for scorer in others):
                return ()
        return missing

    def _try(self, group: Group, gang: Gang, scorer: Scorer) -> Missing:
        left = [(want, [gang.tasks[at] for at in positions]) for want, positions in group.parts]
        progress = True
        while left and progress:
            progress = False
            remaining = []
            for want, tasks in left:
                count = self._put(want, tasks, scorer, group)
                progress |= count > 0
                if count < len(tasks):
                    remaining.append((want, tasks[count:]))
            left = remaining
            progress &= group.depends_on_tasks
        if left:
            self._undo()
        self._done.clear()
        missing: dict[Needs, int] = {}
        for want, tasks in left:
            missing[want.needs] = missing.get(want.needs, 0) + len(tasks)
        return tuple(missing.items())

    def _undo(self) -> None:
        for want, rows, counts in reversed(self._done):
            self.table.give_back(want, rows, counts)

    def _put(self, want: Want, tasks: Sequence[Task], scorer: Scorer, group: Group) -> int:
        """Put as many tasks on hosts as fit; return how many.

        With BEST_FIT the table is sorted: a host beyond the first rows is emptier than all of those, so it is
        not examined before none of those fits.
        """
        placed, first, last = 0, 0, self._reach if scorer is Scorer.BEST_FIT else len(self.table)
        single = (self.table.has_twins and bool(want.counted or want.job)) or scorer is Scorer.PLUGGED_IN
        while placed < len(tasks):
            mask = self._mask(want, group, slice(first, last))
            if len(tasks) - placed == 1 or single:
                count = self._put_one(want, tasks[placed], scorer, mask, first)
            else:
                count = self._put_many(want, tasks[placed:], scorer, mask, first)
            placed += count
            if count:
                self._reach = max(self._reach, min(last, 2 * self._reach))
            elif last < len(self.table):
                first, last = last, len(self.table)
            else:
                break
        return placed

    def _by_fragments(self, want: Want, scorer: Scorer) -> bool:
        """Return whether hosts for such tasks are compared by their fragments of GPUs."""
        return scorer is Scorer.BEST_FIT and want.needs.resources.gpu > 0

    def _growth(self, want: Want, rows: Rows) -> NDArray[np.float64]:
        """Return by how much the fragments of hosts grow with such a task."""
        if self._fragmentation is None:
            self._fragmentation = Fragmentation(self.table, self._gangs)
        return self._fragmentation.growth(want, rows)

    def _least_growth(self, want: Want, rows: Rows) -> int:
        return int(self._growth(want, rows).argmin()) if len(rows) > 1 else 0

    def _put_one(self, want: Want, task: Task, scorer: Scorer, mask: Mask, first: int) -> int:
        row: int | None
        if self._by_fragments(want, scorer) and mask.any():
            rows = np.flatnonzero(mask) + first
            row = int(rows[self._least_growth(want, rows)])
        elif scorer is Scorer.PLUGGED_IN and mask.any():
            assert self._policy.score is not None, "a score is plugged in with its function"
            row = highest(self.table, self._policy.score, want, np.flatnonzero(mask) + first)
        else:
            row = best(self.table, scorer, mask, first)
        if row is None:
            return 0
        self.table.take(want, row, task)
        self._done.append((want, np.array([row]), np.array([1])))
        return 1

    def _put_many(self, want: Want, tasks: Sequence[Task], scorer: Scorer, mask: Mask, first: int) -> int:
        rows = np.flatnonzero(mask) + first
        if not len(rows):
            return 0
        if self._by_fragments(want, scorer):
            rows = rows[np.argsort(self._growth(want, rows), kind="stable")][: len(tasks)]
        else:
            rows = ordered(self.table, scorer, rows, len(tasks))
        counts = shares(scorer, self.table, want, rows, self._room(want, rows, len(tasks)), len(tasks))
        used = counts > 0
        rows, counts = rows[used], counts[used]
        total = int(counts.sum())
        self.table.take_many(want, rows, counts, tasks[:total])
        self._done.append((want, rows, counts))
        return total

    def _mask(self, want: Want, group: Group, rows: slice) -> Mask:
        """Return which of some rows take a task of the group now."""
        mask = self.filters.passing(want, rows)
        if group.desired_host is None:
            return mask
        desired = np.zeros(len(mask), dtype=bool)
        for row in self.table.rows_of.get(group.desired_host, ()):
            offers = group.volume_of is None or group.volume_of in self.table.hosts[row].volumes_of
            if offers and rows.start <= row < rows.stop:
                desired[row - rows.start] = mask[row - rows.start]
        return desired

    def _room(self, want: Want, rows: Rows, count: int) -> Column:
        """Return how many of `count` tasks each host takes; each takes one."""
        room = np.full(len(rows), 1 if want.job or want.fixed else count, dtype=np.int64)
        for kind, amount in want.limits:
            free = self.table.free[kind][rows]
            np.minimum(room, free if kind == LAUNCHES else free // amount, out=room)
        if want.tree is not None:
            own = about_tasks(want.tree).intersection(want.counted)
            if own:
                self._bound_by_own_labels(want, rows, room)
        return room

    def _bound_by_own_labels(self, want: Want, rows: Rows, room: Column) -> None:
        """Reduce the room to the tasks before the first whose constraint does not hold beside the others."""
        assert want.tree is not None
        open_ = np.flatnonzero(room > 1)
        placed = 1
        while len(open_):
            more = {label: placed * want.counted.count(label) for label in want.counted}
            holds = self.table.labels.holds(want.tree, rows[open_], more)
            room[open_[~holds]] = placed
            placed += 1
            open_ = open_[holds & (room[open_] > placed)]

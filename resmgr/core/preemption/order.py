"""The order in which gangs are taken as victims, the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peloton.model.columns import Column, column
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.row_sorting import sort
from resmgr.core.preemption.view import ORDER, Candidates
from resmgr.core.state.cooperative import Steps

_NEVER = len(ORDER)


class Takeable(NamedTuple):
    """The gangs that may be taken, one in each row: what an order of victims is computed from.

    A gang has the latest state, the highest priority and the earliest times of its members.
    """

    state: NDArray[np.int64]
    """0: admitted and not being placed, 1: being placed or launched, 2: running."""
    priority: NDArray[np.int64]
    extra: NDArray[np.bool_]
    """Whether it is a member of an elastic gang beyond its minimum, which goes on without it."""
    work_from: NDArray[np.float64]
    """Since when it has done work that is lost with it: its start or its last checkpoint, in seconds on the
    monotonic clock."""
    size: NDArray[np.int64]
    """Members."""
    frees: NDArray[np.int64]
    """(n, 8) thousandths of cpu, memory, disk and gpu: of tasks that are not revocable, then of others."""


VictimOrder = Callable[[Takeable, float], Sequence[Column]]
"""Returns columns of numbers for the gangs at a time on the monotonic clock, in seconds.

The gang with the least number in the first column is taken first, of equal ones that with the least in the
second one, and so on.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """The gangs that may be taken, as rows, cheapest first (docs/behaviour/pools.md, Preemption).

    READY before PLACING before RUNNING, then lower priority, then extras of elastic gangs, then latest start
    or checkpoint (the least work is lost), then the larger one, then the order of the candidates.

    A gang is as dear as its dearest member: its latest state, highest priority and earliest start or
    checkpoint.
    """

    candidates: Candidates
    frees: NDArray[np.int64]
    """(n, 8), thousandths: of tasks that are not revocable, then of those that are."""
    priority: NDArray[np.int64]
    size: NDArray[np.int64]
    """Number of members."""
    _first: NDArray[np.int64]
    """Where the members begin in `_rows`."""
    _rows: NDArray[np.int64]
    """Rows of the candidates, gang by gang."""

    @staticmethod
    def of(candidates: Candidates, by: VictimOrder | None = None, now: float = 0.0) -> Steps[Gangs]:
        """Group candidates by gang and sort the gangs, by another order than the above where one is given."""
        rows = yield from sort([candidates.gang])
        ids = candidates.gang[rows]
        starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(ids)), np.bool_), ids[1:] != ids[:-1])))
        if not len(starts):
            nothing = np.zeros(0, np.int64)
            return Gangs(candidates, np.zeros((0, 8), np.int64), nothing, nothing, nothing, nothing)
        rank = np.maximum.reduceat(_ranks(candidates)[rows], starts)
        yield
        priority = np.maximum.reduceat(candidates.priority[rows], starts)
        yield
        needed = (~candidates.extra)[rows[starts]].astype(np.int64)  # an extra is a gang of its own
        started = np.minimum.reduceat(candidates.work_from[rows], starts)
        yield
        sides, freed = list[NDArray[np.int64]](), np.zeros(len(starts), np.int64)
        for amounts in _sides(candidates):
            sides.append(np.add.reduceat(amounts[rows], starts))
            freed += sides[-1]
            yield
        size = np.diff(starts, append=len(rows))
        may = np.flatnonzero(rank < _NEVER)
        columns = list[Column]()
        if by is None:
            for values in (rank, priority, needed, started, freed, rows[starts]):
                columns.append(-values[may] if values is started or values is freed else values[may])
                yield
        else:
            amounts = np.stack(sides, axis=1)[may]
            gangs = Takeable(rank[may], priority[may], needed[may] == 0, started[may], size[may], amounts)
            columns += _ordered(by, gangs, now)
            columns.append(rows[starts][may])
            yield
        order = may[(yield from sort(columns))]
        frees = np.empty((len(order), len(sides)), np.int64, order="F")
        for side, amounts in enumerate(sides):
            frees[:, side] = amounts[order]
            yield
        return Gangs(candidates, frees, priority[order], size[order], starts[order], rows)

    def __len__(self) -> int:
        return len(self.frees)

    def victim(
        self,
        row: int,
        frees: Sequence[int],
        sides: Sequence[int],
        pools: tuple[str, str],
        policy: str,
        reason: str,
        hosts: str = "",
    ) -> Victim:
        """Return the gang as a victim for these sides; see `Victim.of`."""
        first, runs = int(self._first[row]), self.candidates.runs
        members: list[int] = self._rows[first : first + int(self.size[row])].tolist()
        of_members = tuple([runs[member] for member in members])
        return Victim.of(of_members, tuple(members), frees, sides, pools, policy, reason, hosts)


def _ordered(by: VictimOrder, gangs: Takeable, now: float) -> list[Column]:
    """Return the columns of an order that is plugged in. Raises ValueError where they are none."""
    count = len(gangs.state)
    return [
        column(values, count, f"the order of victims, column {at}")
        for at, values in enumerate(by(gangs, now))
    ]


def _ranks(candidates: Candidates) -> NDArray[np.int64]:
    """Return the position of each task's state in ORDER; beyond it where it may not be taken."""
    ranks = np.full(len(candidates), _NEVER, np.int64)
    for rank, state in enumerate(ORDER):
        ranks[(candidates.state == state) & candidates.eligible] = rank
    return ranks


def _sides(candidates: Candidates) -> Iterator[NDArray[np.int64]]:
    """Iterate over 8 columns: each task's amounts, non-slack then slack."""
    for held in (~candidates.revocable, candidates.revocable):
        for amounts in candidates.amount.T:
            yield np.where(held, amounts, 0)

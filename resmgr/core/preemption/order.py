"""The order in which gangs are taken as victims, the cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.row_sorting import sort
from resmgr.core.preemption.view import ORDER, Candidates
from resmgr.core.state.cooperative import Steps

_NEVER = len(ORDER)


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
    def of(candidates: Candidates) -> Steps[Gangs]:
        """Group candidates by gang and sort the gangs."""
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
        columns = []
        for column in (rank, priority, needed, started, freed, rows[starts]):
            columns.append(-column[may] if column is started or column is freed else column[may])
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

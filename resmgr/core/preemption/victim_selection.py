"""Selection of the fewest and cheapest gangs that together free what is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resmgr.core.preemption.order import sort
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.view import ORDER, Candidates
from resmgr.core.state.cooperative import Steps

_NEVER = len(ORDER)
_PART = 4096
Freed = tuple[int, ...]
"""A tuple, not a list: of hundreds of thousands, Python's cycle collector need not keep track."""


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """The gangs that may be taken, as rows, cheapest first (docs/behaviour/pools.md, Preemption).

    READY before PLACING before RUNNING, then lower priority, then latest start, then the larger one, then
    the order of the candidates.

    A gang is as dear as its dearest member: its latest state, highest priority and earliest start.
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
        started = np.minimum.reduceat(candidates.started[rows], starts)
        yield
        sides, freed = list[NDArray[np.int64]](), np.zeros(len(starts), np.int64)
        for amounts in _sides(candidates):
            sides.append(np.add.reduceat(amounts[rows], starts))
            freed += sides[-1]
            yield
        size = np.diff(starts, append=len(rows))
        may = np.flatnonzero(rank < _NEVER)
        columns = []
        for column in (rank, priority, started, freed, rows[starts]):
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
    ) -> Victim:
        """Return the gang as a victim for these sides; see `Victim.of`."""
        first, runs = int(self._first[row]), self.candidates.runs
        members: list[int] = self._rows[first : first + int(self.size[row])].tolist()
        of_members = tuple([runs[member] for member in members])
        return Victim.of(of_members, tuple(members), frees, sides, pools, policy, reason)


def select(
    frees: NDArray[np.int64], need: Sequence[int], among: NDArray[np.int64] | None = None
) -> Steps[tuple[list[int], bool]]:
    """Return the rows of `frees` that free what is needed, in their order, and whether they suffice.

    Where all rows together do not free enough of a kind, all rows that free some of it are taken. `among`:
    the rows that may be taken, ascending; None: all.

    A row is taken if it helps a kind that is still short. Then, the dearest first, each row is dropped
    without which the kinds stay covered. What is left has two properties: without any one row some kind
    would be short, or shorter; and no row can be replaced by a cheaper one that was left out.
    """
    sides = [side for side, amount in enumerate(need) if amount > 0]
    if not sides:
        return [], True
    short = [need[side] for side in sides]
    taken: list[tuple[int, Freed]] = []
    rows = np.arange(len(frees)) if among is None else among
    for part in _helping(frees, rows, sides):
        short = _take(part, taken, short)
        if max(short) <= 0:
            break
        yield
    kept = yield from _without_needless(taken, short)
    return kept, max(short) <= 0


def _helping(
    frees: NDArray[np.int64], rows: NDArray[np.int64], sides: Sequence[int]
) -> Iterator[Iterable[tuple[int, Freed]]]:
    """Iterate over the rows that free some of those sides, in parts: usually the first ones suffice."""
    for at in range(0, len(rows), _PART):
        part = rows[at : at + _PART]
        freed = frees[part][:, sides]
        helps = (freed > 0).any(axis=1)
        yield zip(part[helps].tolist(), map(tuple, freed[helps].tolist()), strict=True)


def _take(part: Iterable[tuple[int, Freed]], taken: list[tuple[int, Freed]], short: list[int]) -> list[int]:
    """Add rows that help to `taken`; return what is still short."""
    for row, freed in part:
        if not any(amount > 0 and rest > 0 for amount, rest in zip(freed, short, strict=True)):
            continue
        taken.append((row, freed))
        short = [rest - amount for rest, amount in zip(short, freed, strict=True)]
        if max(short) <= 0:
            break
    return short


def _without_needless(taken: Sequence[tuple[int, Freed]], short: Sequence[int]) -> Steps[list[int]]:
    """Return the taken rows without those that are not needed.

    `short`: what the rows leave to be freed; negative amounts are freed beyond need.
    """
    beyond = [max(0, -rest) for rest in short]
    kept: list[int] = []
    for at, (row, freed) in enumerate(reversed(taken)):
        if all(amount <= spare for amount, spare in zip(freed, beyond, strict=True)):
            beyond = [spare - amount for amount, spare in zip(freed, beyond, strict=True)]
        else:
            kept.append(row)
        if at % _PART == _PART - 1:
            yield
    kept.reverse()
    return kept


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

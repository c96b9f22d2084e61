"""Choosing gangs that together free what is needed: the fewest and cheapest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peloton.model.ids import Run
from resmgr.core.preemption.view import ORDER, Candidates

_NEVER = len(ORDER)
_PART = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """The gangs that may be taken, as rows, cheapest first (behaviour 7.5): READY before PLACING before
    RUNNING, then lower priority, then latest start, then the larger one, then as the candidates stand.

    A gang is as dear as its dearest member: its latest state, highest priority and earliest start.
    """

    candidates: Candidates
    frees: NDArray[np.int64]
    """(n, 8), thousandths: of tasks that are not revocable, then of those that are."""
    priority: NDArray[np.int64]
    size: NDArray[np.int64]
    """Number of members."""
    _first: Sequence[int]
    """Where the members begin in `_rows`."""
    _rows: Sequence[int]
    """Rows of the candidates, gang by gang."""

    @staticmethod
    def of(candidates: Candidates) -> Gangs:
        rows = np.argsort(candidates.gang, kind="stable")
        ids = candidates.gang[rows]
        starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(ids)), np.bool_), ids[1:] != ids[:-1])))
        if not len(starts):
            nothing = np.zeros(0, np.int64)
            return Gangs(candidates, np.zeros((0, 8), np.int64), nothing, nothing, (), ())
        rank = np.maximum.reduceat(_ranks(candidates)[rows], starts)
        priority = np.maximum.reduceat(candidates.priority[rows], starts)
        started = np.minimum.reduceat(candidates.started[rows], starts)
        frees = np.add.reduceat(_sides(candidates)[rows], starts, axis=0)
        size = np.diff(starts, append=len(rows))
        order = np.lexsort((rows[starts], -frees.sum(axis=1), -started, priority, rank))
        order = order[rank[order] < _NEVER]
        return Gangs(
            candidates, frees[order], priority[order], size[order], starts[order].tolist(), rows.tolist()
        )

    def __len__(self) -> int:
        return len(self.frees)

    def runs(self, row: int) -> tuple[Run, ...]:
        first = self._first[row]
        runs = self.candidates.runs
        return tuple([runs[member] for member in self._rows[first : first + int(self.size[row])]])


def cover(
    frees: NDArray[np.int64], need: Sequence[int], among: NDArray[np.int64] | None = None
) -> tuple[list[int], bool]:
    """Rows of `frees` that free what is needed, in their order, and whether they do; where all rows together
    do not free enough of a kind, all of what there is of it is taken. `among`: the rows that may be taken,
    ascending; None: all.

    A row is taken if it helps a kind that is still short. Then, the dearest first, each row is dropped
    without which the kinds stay covered. What is left has two properties: without any one row some kind
    would be short, or shorter; and no row can be replaced by a cheaper one that was left out.
    """
    sides = [side for side, amount in enumerate(need) if amount > 0]
    if not sides:
        return [], True
    short = [need[side] for side in sides]
    taken: list[tuple[int, list[int]]] = []
    rows = np.arange(len(frees)) if among is None else among
    for row, freed in _helping(frees, rows, sides):
        if not any(amount > 0 and rest > 0 for amount, rest in zip(freed, short, strict=True)):
            continue
        taken.append((row, freed))
        short = [rest - amount for rest, amount in zip(short, freed, strict=True)]
        if max(short) <= 0:
            break
    return _without_needless(taken, short), max(short) <= 0


def _helping(
    frees: NDArray[np.int64], rows: NDArray[np.int64], sides: Sequence[int]
) -> Iterator[tuple[int, list[int]]]:
    """The rows that free anything of those sides, with what they free of them. Read in parts, because few
    are looked at as a rule."""
    for at in range(0, len(rows), _PART):
        part = rows[at : at + _PART]
        freed = frees[part][:, sides]
        helps = (freed > 0).any(axis=1)
        yield from zip(part[helps].tolist(), freed[helps].tolist(), strict=True)


def _without_needless(taken: Sequence[tuple[int, Sequence[int]]], short: Sequence[int]) -> list[int]:
    """`short`: what the rows taken leave to be freed; what is below 0 is freed beyond need."""
    beyond = [max(0, -rest) for rest in short]
    kept: list[int] = []
    for row, freed in reversed(taken):
        if all(amount <= spare for amount, spare in zip(freed, beyond, strict=True)):
            beyond = [spare - amount for amount, spare in zip(freed, beyond, strict=True)]
        else:
            kept.append(row)
    kept.reverse()
    return kept


def _ranks(candidates: Candidates) -> NDArray[np.int64]:
    """Place of each task's state in ORDER; beyond it where it may not be taken."""
    ranks = np.full(len(candidates), _NEVER, np.int64)
    for rank, state in enumerate(ORDER):
        ranks[(candidates.state == state) & candidates.eligible] = rank
    return ranks


def _sides(candidates: Candidates) -> NDArray[np.int64]:
    """(n, 8): each task's amounts, not slack then slack."""
    revocable = candidates.revocable[:, np.newaxis]
    return np.hstack((np.where(revocable, 0, candidates.amount), np.where(revocable, candidates.amount, 0)))

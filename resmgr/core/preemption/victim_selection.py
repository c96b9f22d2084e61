"""Selection of the fewest and cheapest gangs that together free what is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from resmgr.core.state.cooperative import Steps

_PART = 4096
Freed = tuple[int, ...]
"""A tuple, not a list: of hundreds of thousands, Python's cycle collector need not keep track."""


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

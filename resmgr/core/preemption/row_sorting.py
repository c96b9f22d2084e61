"""Sorting many rows by several columns, in steps of bounded length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peloton.model.columns import Column
from resmgr.core.state.cooperative import Steps

AT_ONCE = 30_000


def sort(columns: Sequence[Column], at_once: int = AT_ONCE) -> Steps[NDArray[np.int64]]:
    """Return row numbers, ascending by the first column, then by the second and so on, then by the row.

    Each step selects the first `at_once` of the remaining rows, in linear time, and sorts only those.
    """
    left = np.arange(len(columns[0]))
    sorted_parts: list[NDArray[np.int64]] = []
    while len(left) > at_once:
        first = yield from _first(columns, left, at_once)
        sorted_parts.append(_sorted(columns, left[first]))
        left = left[~first]
        yield
    sorted_parts.append(_sorted(columns, left))
    return np.concatenate(sorted_parts)


def _sorted(columns: Sequence[Column], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[np.lexsort([rows, *(column[rows] for column in reversed(columns))])]


def _first(columns: Sequence[Column], rows: NDArray[np.int64], count: int) -> Steps[NDArray[np.bool_]]:
    """Return which `count` of the ascending rows, which are more, come first."""
    first = np.zeros(len(rows), np.bool_)
    tied = np.arange(len(rows))
    for column in columns:
        values = column[rows[tied]]
        bound = np.partition(values, count - 1)[count - 1]
        below = values < bound
        first[tied[below]] = True
        count -= int(np.count_nonzero(below))
        tied = tied[values == bound]
        yield
    first[tied[:count]] = True
    return first

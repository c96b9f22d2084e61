"""Rows that say the same, shown as one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

NEAR_SECONDS = 60.0
"""Times that are shown as one, where everything else is alike."""
T = TypeVar("T")


def lines(rows: Iterable[T], alike: Callable[[T, T], bool]) -> list[list[T]]:
    """Return rows in order, each with those behind it that are like the one before them."""
    found: list[list[T]] = []
    for row in rows:
        if found and alike(found[-1][-1], row):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def near(one: float, other: float) -> bool:
    """Return whether two times, in seconds since 1970, may be shown as one; 0 stands for none."""
    return abs(one - other) < NEAR_SECONDS

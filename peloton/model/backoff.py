"""The rule of exponential back-off, for cores and shells alike."""

from __future__ import annotations

import math

_MOST_DOUBLINGS = 30


def exponential(failures: int, first: float, longest: float = math.inf) -> float:
    """Return the pause after that many failures in a row, in the unit of `first`.

    It is `first` after one failure, twice as long after each further one, and `longest` at most.
    """
    assert failures >= 0 and first >= 0, (failures, first)
    return min(first * 2.0 ** min(max(failures - 1, 0), _MOST_DOUBLINGS), longest)

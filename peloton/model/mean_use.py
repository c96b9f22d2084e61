"""What of the cores that are held was used lately, on average."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LATELY_SECONDS = 3600.0


class MeanUse(NamedTuple):
    """The mean over a time."""

    part: float
    """Of what was held."""
    seconds: float
    """How long something was held in that time; 0: nothing was."""


def mean_use(points: Iterable[tuple[float, float, float]], begin: float, since: float) -> MeanUse:
    """Return what part of the held cores was used from a time on.

    `points` follow on each other from `begin` on: when each ends, and the mean of cores held and used.
    """
    held = used = seconds = 0.0
    last = begin
    for until, cores, of_them in points:
        length = until - max(last, since)
        last = until
        if length > 0 and cores > 0:
            held, used, seconds = held + cores * length, used + of_them * length, seconds + length
    return MeanUse(used / held if held else 0.0, seconds)

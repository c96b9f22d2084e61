"""The hour that is open: means of five minutes of many subjects, until they are stored."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from storage.histories.samples import FINE, HOUR, Values

STEPS = HOUR // FINE
"""Samples of an hour."""


class OpenHour:
    """Amounts × seconds and seconds by subject and step: 240 bytes for a subject with four amounts."""

    def __init__(self, start: int, width: int, most: int) -> None:
        """Open the hour that begins at `start`, in seconds since 1970, for up to `most` subjects."""
        self.start = start
        self._width = width + 1
        self._most = most
        self._rows: dict[str, array[float]] = {}

    def add(self, subject: str, since: float, until: float, amounts: Sequence[float]) -> None:
        """Take mean amounts over a time; what is not within the hour is left out."""
        since, until = max(since, self.start), min(until, self.start + HOUR)
        row = self._rows.get(subject)
        if until <= since or (row is None and len(self._rows) >= self._most):
            return
        if row is None:
            row = self._rows[subject] = array("f", bytes(4 * STEPS * self._width))
        for step in range(int((since - self.start) // FINE), math.ceil((until - self.start) / FINE)):
            begin = self.start + step * FINE
            seconds = min(until, begin + FINE) - max(since, begin)
            first = step * self._width
            row[first] += seconds
            for place, amount in enumerate(amounts, first + 1):
                row[place] += amount * seconds

    def drop(self, dropped: Callable[[str], bool]) -> None:
        """Forget subjects."""
        for subject in [each for each in self._rows if dropped(each)]:
            del self._rows[subject]

    def freeze(self, subject: str | None = None) -> Callable[[], Mapping[str, Values]]:
        """Return what makes the means of what there is now, in any thread: of one subject, or of all."""
        names = list(self._rows) if subject is None else [each for each in (subject,) if each in self._rows]
        content = b"".join(self._rows[each] for each in names)
        return lambda: _means(names, content, self._width)


def _means(names: Sequence[str], content: bytes, width: int) -> dict[str, Values]:
    """Return the means of each step by subject, NaN where nothing was measured."""
    sums = np.frombuffer(content, np.float32).reshape(len(names), STEPS, width)
    seconds = sums[:, :, :1]
    found = np.full((len(names), STEPS, width - 1), np.nan, np.float32)
    np.divide(sums[:, :, 1:], seconds, out=found, where=seconds > 0)
    return dict(zip(names, found, strict=True))

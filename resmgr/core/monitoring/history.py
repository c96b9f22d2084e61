"""Samples over time in rings of arrays: one a minute for an hour, and means of five minutes for a day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
MINUTES = 60
"""Samples of one minute that are kept."""
LONG_STEP_MINUTES = 5
"""Minutes of a sample of the day."""
DAY_SAMPLES = 24 * 60 // LONG_STEP_MINUTES
"""Samples of the day that are kept."""
MOST_SUBJECTS = 2000
"""Subjects that are followed: 22 KiB each with 16 values. Further ones have no history until others go."""


class Samples(NamedTuple):
    """Samples of one subject, oldest first."""

    start: int
    """The minute since 1970 of the first one."""
    step: int
    """Minutes between two."""
    values: Values
    """Of shape (samples, width); NaN where nothing was measured."""


class History:
    """Samples of many subjects with equally many values each.

    A minute's place in the ring follows from its number, so that minutes without a sample stay empty. All
    subjects are rows of two arrays: a sample of thousands takes a few milliseconds.
    """

    def __init__(self, width: int, most: int = MOST_SUBJECTS) -> None:
        """Keep `width` values in each sample, of up to `most` subjects."""
        self._width = width
        self._most = most
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._short = self._empty(0, MINUTES)
        self._long = self._empty(0, DAY_SAMPLES)
        self._minute: int | None = None
        """The newest minute with a sample."""

    def __len__(self) -> int:
        """Return the number of subjects."""
        return len(self._rows)

    def sample(self, minute: int, samples: Mapping[str, Sequence[float]]) -> None:
        """Add the sample of a minute since 1970, and forget subjects that it lacks.

        A minute that is not newer than the last one is ignored: the clock was set back.
        """
        if self._minute is not None and minute <= self._minute:
            return
        if self._minute is not None:
            self._short[:, _places(self._minute, minute, MINUTES)] = np.nan
            self._long[
                :, _places(self._minute // LONG_STEP_MINUTES, minute // LONG_STEP_MINUTES, DAY_SAMPLES)
            ] = np.nan
        self._minute = minute
        self._forget(self._rows.keys() - samples.keys())
        self._make_room(samples.keys() - self._rows.keys())
        known = [(row, samples[key]) for key, row in self._rows.items()]
        if not known:
            return
        rows = [row for row, _ in known]
        self._short[rows, minute % MINUTES] = np.array([values for _, values in known], np.float32)
        self._long[rows, minute // LONG_STEP_MINUTES % DAY_SAMPLES] = self._mean(rows, minute)

    def hour(self, key: str) -> Samples | None:
        """Return the samples of the last hour; None for an unknown subject."""
        return self._read(key, self._short, 1)

    def day(self, key: str) -> Samples | None:
        """Return the means of five minutes of the last day; None for an unknown subject.

        The newest one, of minutes that are not over, is the mean of what there is.
        """
        return self._read(key, self._long, LONG_STEP_MINUTES)

    def means(self, first: int, count: int, subjects: Iterable[str] | None = None) -> dict[str, Values]:
        """Return means of five minutes, of `count` of them from the number `first` on, since 1970.

        Of shape (count, width), by subject, of all where none are named; NaN where nothing was measured, and
        where it is not known any more.
        """
        newest = -1 if self._minute is None else self._minute // LONG_STEP_MINUTES
        kept = range(max(first, newest - DAY_SAMPLES + 1), min(first + count, newest + 1))
        names = self._rows if subjects is None else [each for each in subjects if each in self._rows]
        found = np.full((len(names), count, self._width), np.nan, np.float32)
        if kept and len(names):
            rows = [self._rows[each] for each in names]
            found[:, kept[0] - first : kept[-1] - first + 1] = self._long[
                np.ix_(rows, [each % DAY_SAMPLES for each in kept])
            ]
        return dict(zip(names, found, strict=True))

    def restore(self, minute: int, means: Mapping[str, Values]) -> None:
        """Take over what others have sampled before a minute: means of five minutes, up to its hour's end.

        For a history without samples; all are equally long. Minutes of the last hour get the means of theirs.
        """
        assert self._minute is None, "there are samples already"
        self._make_room(means)
        known = [each for each in means if each in self._rows]
        if not known:
            return
        self._minute = minute - 1
        newest, hour = self._minute // LONG_STEP_MINUTES, minute // 60 * 60
        rows, values = [self._rows[each] for each in known], np.stack([means[each] for each in known])
        first = (hour + 60) // LONG_STEP_MINUTES - values.shape[1]
        kept = range(max(first, newest - DAY_SAMPLES + 1), newest + 1)
        self._long[np.ix_(rows, [each % DAY_SAMPLES for each in kept])] = values[:, [n - first for n in kept]]
        minutes = range(max(self._minute - MINUTES + 1, first * LONG_STEP_MINUTES), self._minute + 1)
        self._short[np.ix_(rows, [each % MINUTES for each in minutes])] = values[
            :, [each // LONG_STEP_MINUTES - first for each in minutes]
        ]

    def _read(self, key: str, rings: Values, step: int) -> Samples | None:
        row = self._rows.get(key)
        if row is None or self._minute is None:
            return None
        size = rings.shape[1]
        first = self._minute // step - size + 1
        return Samples(first * step, step, np.roll(rings[row], -(first % size), axis=0))

    def _mean(self, rows: Sequence[int], minute: int) -> Values:
        """Return the means of the five minutes to which a minute belongs, as far as measured."""
        first = minute - minute % LONG_STEP_MINUTES
        places = [each % MINUTES for each in range(first, minute + 1)]
        values = self._short[np.ix_(rows, places)]
        known = ~np.isnan(values)
        counts = known.sum(axis=1)
        sums = np.where(known, values, 0).sum(axis=1)
        mean = np.full(counts.shape, np.nan, np.float32)
        np.divide(sums, counts, out=mean, where=counts > 0)
        return mean

    def _forget(self, keys: Iterable[str]) -> None:
        self._free += [self._rows.pop(key) for key in list(keys)]

    def _make_room(self, keys: Iterable[str]) -> None:
        """Give new subjects a row each, as long as there are any."""
        for key in sorted(keys):
            if len(self._rows) >= self._most:
                return
            if not self._free:
                self._grow()
            row = self._rows[key] = self._free.pop()
            self._short[row] = np.nan
            self._long[row] = np.nan

    def _grow(self) -> None:
        """Double the arrays."""
        held = len(self._short)
        further = max(min(held, self._most - held), 16)
        self._short = np.concatenate((self._short, self._empty(further, MINUTES)))
        self._long = np.concatenate((self._long, self._empty(further, DAY_SAMPLES)))
        self._free = list(range(held + further - 1, held - 1, -1))

    def _empty(self, subjects: int, size: int) -> Values:
        return np.full((subjects, size, self._width), np.nan, np.float32)


def _places(after: int, to: int, size: int) -> list[int]:
    """Return the places in a ring of the numbers behind `after`, up to `to`."""
    return [number % size for number in range(max(after + 1, to - size + 1), to + 1)]

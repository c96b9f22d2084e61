"""Amounts of many subjects over time in the store: what leaders have measured, for pages and the next ones.

Means of five minutes are in blocks of an hour; where they are wanted, those of an hour in blocks of a day.
Memory has the open hour only. Who leads next adds to the blocks that it finds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from peloton.errors import PelotonError
from peloton.model.history import HistoryBlock
from storage.histories.open_hour import STEPS, OpenHour
from storage.histories.samples import (
    DAY,
    FINE,
    HOUR,
    PARTS,
    PartOf,
    Values,
    blocks_of,
    decoded,
    hours_of,
    joined,
    overlaid,
    part_of,
)
from storage.interface import History

COARSE_KEEP = 36 * DAY
"""Seconds for which blocks of a day are kept."""
MOST_DAYS = COARSE_KEEP // DAY - 1
"""Days that can be read."""
GRACE = 60
"""Seconds after an hour in which what belongs to it may come."""
MOST_OPEN = 3
"""Open hours in memory: there are more where the store is away, and the oldest is lost."""
READ_HOURS = 26
"""Hours of means of five minutes that are read at a time."""
log = logging.getLogger(__name__)
Frozen = Callable[[], Mapping[str, Values]]


class Kept(NamedTuple):
    """What is kept, and how long."""

    scope: str
    """The name of the history in the store."""
    columns: tuple[str, ...]
    """The names of the amounts."""
    fine: int
    """Seconds for which means of five minutes are kept."""
    hours: bool = False
    """Whether means of hours are kept for 36 days."""
    part: PartOf = part_of
    most: int = 50_000
    """Subjects of an hour."""


class Span(NamedTuple):
    """Mean amounts from `since` until `until`, in seconds since 1970."""

    since: float
    until: float
    amounts: tuple[float, ...]


class StoredCourses:
    """Writes what is added, and reads what was. One writes a part at a time."""

    def __init__(self, blocks: History, kept: Kept) -> None:
        self._blocks = blocks
        self._kept = kept
        self._hours: dict[int, OpenHour] = {}
        self._held: dict[tuple[int, int], Mapping[str, Values]] = {}
        """What others have stored of an open hour, by its begin and part."""
        self._whole = True
        """Whether days are to be looked at that an earlier leader may have left incomplete."""

    def add(self, subject: str, since: float, until: float, amounts: Sequence[float]) -> None:
        """Take mean amounts over a time, in seconds since 1970. Of long times, the end counts."""
        last = _begin(until, HOUR)
        for start in (last,) if since >= last else (last - HOUR, last):
            hour = self._hours.get(start)
            if hour is None:
                if self._hours and start < min(self._hours):
                    continue  # it is stored and closed
                hour = self._hours[start] = OpenHour(start, len(self._kept.columns), self._kept.most)
            hour.add(subject, since, until, amounts)

    def drop(self, dropped: Callable[[str], bool]) -> None:
        """Forget subjects that another process follows from now on, in whose parts it writes."""
        for hour in self._hours.values():
            hour.drop(dropped)
        self._held.clear()  # read again, should they come back

    async def write(self, now: float) -> None:
        """Store what was added. Failures are logged, and tried again with the next call."""
        try:
            for start in sorted(self._hours):
                await self._write_hour(start, self._hours[start].freeze())
                if now >= start + HOUR + GRACE:
                    if self._kept.hours:
                        await self._write_days(_begin(start, DAY))
                    self._close(start)
        except PelotonError as error:
            log.warning("the history of the %s is not stored: %s", self._kept.scope, error)
        while len(self._hours) > MOST_OPEN:
            self._close(min(self._hours))

    async def recent(self, subject: str, since: float, until: float, before: bool = False) -> list[Span]:
        """Return means of five minutes of a subject, of the last 26 hours of a time. Raises PelotonError.

        With `before`, what was added here of the five minutes of `until` is left out: it belongs behind it.
        """
        kept, hour = self._kept, _begin(until, HOUR)
        starts = range(max(_begin(since, HOUR), hour - (READ_HOURS - 1) * HOUR), hour + HOUR, HOUR)
        rows = await self._blocks.read(kept.scope, FINE, starts, kept.part(subject))
        found = await asyncio.to_thread(joined, rows, kept.columns, starts, STEPS, subject)
        values = found.get(subject, _nothing(len(starts) * STEPS, len(kept.columns)))
        for at, start in enumerate(starts):
            end = (_begin(until, FINE) - start) // FINE if before and start == hour else STEPS
            self._add_open(start, subject, values[at * STEPS : (at + 1) * STEPS], end)
        return [
            Span(max(begin, since), min(begin + FINE, until), tuple(map(float, row)))
            for begin, row in zip(range(starts[0], starts[0] + len(values) * FINE, FINE), values, strict=True)
            if begin + FINE > since and begin < until and not np.isnan(row).any()
        ]

    async def days(self, subject: str, days: int, now: float) -> list[Span]:
        """Return means of hours of a subject over the last days. Raises PelotonError."""
        kept, today = self._kept, _begin(now, DAY)
        starts = range(today - min(days, MOST_DAYS) * DAY, today + DAY, DAY)
        rows = await self._blocks.read(kept.scope, HOUR, starts, kept.part(subject))
        found = await asyncio.to_thread(joined, rows, kept.columns, starts, DAY // HOUR, subject)
        values = found.get(subject, _nothing(len(starts) * DAY // HOUR, len(kept.columns)))
        spans = [
            Span(begin, begin + HOUR, tuple(map(float, row)))
            for begin, row in zip(range(starts[0], today + DAY, HOUR), values, strict=True)
            if not np.isnan(row).any() and begin + HOUR > now - days * DAY
        ]
        since = max(spans[-1].until if spans else 0.0, now - days * DAY)
        return [*spans, *_by_hours(await self.recent(subject, since, now))]

    def _add_open(self, start: int, subject: str, values: Values, end: int) -> None:
        """Add what was added here to an hour, before a step. What others have stored of a step counts."""
        hour = self._hours.get(start)
        fresh = {} if hour is None else hour.freeze(subject)()
        if subject not in fresh:
            return
        held = self._held.get((start, self._kept.part(subject)))
        theirs = values.copy() if held is None else held.get(subject, _nothing(*values.shape))
        values[:end] = np.where(np.isnan(theirs), fresh[subject], theirs)[:end]
        values[end:] = theirs[end:]

    def _close(self, start: int) -> None:
        del self._hours[start]
        self._held = {key: held for key, held in self._held.items() if key[0] != start}

    async def _write_hour(self, start: int, frozen: Frozen) -> None:
        kept = self._kept
        blocks, parts = await asyncio.to_thread(self._made, start, frozen)
        unknown = [each for each in parts if (start, each) not in self._held]
        if unknown:
            rows = await self._blocks.read(kept.scope, FINE, [start])
            found = {row.part: await asyncio.to_thread(decoded, row, kept.columns) for row in rows}
            self._held |= {(start, part): found.get(part, {}) for part in unknown}
            blocks, _ = await asyncio.to_thread(self._made, start, frozen)
        await self._blocks.write(blocks, kept.fine)

    def _made(self, start: int, frozen: Frozen) -> tuple[list[HistoryBlock], set[int]]:
        """Return the blocks of an hour, with what others have stored of it, and their parts."""
        kept, values = self._kept, frozen()
        parts = {kept.part(subject) for subject in values}
        held: dict[str, Values] = {}
        for part in parts:
            held.update(self._held.get((start, part), {}))
        return blocks_of(kept.scope, kept.columns, FINE, start, overlaid(values, held), kept.part), parts

    async def _write_days(self, day: int) -> None:
        """Store the means of the hours of a day; the first time, of the day before it, too."""
        for begin in (day - DAY, day) if self._whole else (day,):
            for part in range(PARTS):
                await self._write_day(begin, part)
        self._whole = False

    async def _write_day(self, day: int, part: int) -> None:
        kept, starts = self._kept, range(day, day + DAY, HOUR)
        held = await self._blocks.read(kept.scope, HOUR, [day], part)
        rows = await self._blocks.read(kept.scope, FINE, starts, part)
        await self._blocks.write(await asyncio.to_thread(_of_day, kept, day, held, rows), COARSE_KEEP)


def _of_day(
    kept: Kept, day: int, held: Sequence[HistoryBlock], rows: Sequence[HistoryBlock]
) -> list[HistoryBlock]:
    """Return the blocks of a day: hours that are stored, and those of blocks of hours."""
    known = joined(held, kept.columns, [day], DAY // HOUR)
    fine = joined(rows, kept.columns, range(day, day + DAY, HOUR), STEPS)
    return blocks_of(kept.scope, kept.columns, HOUR, day, overlaid(known, hours_of(fine)), kept.part)


def _by_hours(spans: Sequence[Span]) -> list[Span]:
    """Return means of hours of spans in order."""
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(_begin(span.since, HOUR), []).append(span)
    return [
        Span(
            some[0].since,
            some[-1].until,
            tuple(map(_mean, zip(*(each.amounts for each in some), strict=True))),
        )
        for some in found.values()
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _begin(time: float, step: int) -> int:
    return int(time) // step * step


def _nothing(samples: int, width: int) -> Values:
    return np.full((samples, width), np.nan, np.float32)

"""The history of pools and of the cluster in the store: what a leader has sampled, for the next ones.

Means of five minutes are in blocks of an hour for a day, those of an hour in blocks of a day, for weeks.
Subjects are spread over a few blocks by their names, so that the history of one is read without all others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peloton.errors import PelotonError
from peloton.model.history import HistoryBlock
from resmgr.core.monitoring.history import LONG_STEP_MINUTES, History, Samples, Values
from storage.interface import History as Blocks

log = logging.getLogger(__name__)
MINUTE, HOUR, DAY = 60, 3600, 86_400
FINE = LONG_STEP_MINUTES * MINUTE
"""Seconds of a sample in blocks of an hour."""
FINE_KEEP, COARSE_KEEP = 26 * HOUR, 36 * DAY
"""Seconds for which blocks are kept."""
MOST_DAYS = COARSE_KEEP // DAY - 1
"""Days that can be read."""
PARTS = 16
"""Blocks of one begin, at most."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A history, the name of it in the store, and of the values of its samples."""

    name: str
    columns: tuple[str, ...]
    history: History


class StoredHistory:
    """Reads and writes the histories of a term."""

    def __init__(self, blocks: Blocks, scopes: Sequence[Scope]) -> None:
        self._blocks = blocks
        self._scopes = scopes
        self._whole = True
        """Whether hours of yesterday are to be written, too: the last leader may not have done it."""

    async def restore(self, minute: int) -> None:
        """Take over what was sampled before a minute since 1970, before the first sample of the term."""
        last = minute * MINUTE // HOUR * HOUR
        starts = range(last - DAY, last + HOUR, HOUR)
        for scope in self._scopes:
            try:
                rows = await self._blocks.read(scope.name, FINE, starts)
            except PelotonError as error:
                log.warning("the history of the %s from before this term is not known: %s", scope.name, error)
                continue
            scope.history.restore(minute, await asyncio.to_thread(_joined, rows, scope, starts, FINE, HOUR))

    async def write(self, minute: int) -> None:
        """Store what has been sampled up to a minute, where a sample is whole. Failures are logged."""
        if minute % LONG_STEP_MINUTES:
            return
        hour = (minute - 1) * MINUTE // HOUR * HOUR
        try:
            for scope in self._scopes:
                values = scope.history.means(hour // FINE, HOUR // FINE)
                blocks = await asyncio.to_thread(_blocks, scope, FINE, hour, values)
                await self._blocks.write(blocks, FINE_KEEP)
            if minute * MINUTE % HOUR == 0 or self._whole:
                today = (minute - 1) * MINUTE // DAY * DAY
                for day in (today - DAY, today) if self._whole else (today,):
                    await self._write_hours(day)
                self._whole = False
        except PelotonError as error:
            log.warning("the history is not stored: %s", error)

    async def _write_hours(self, day: int) -> None:
        """Store the means of the hours of a day, beside those that earlier leaders have stored."""
        for scope in self._scopes:
            held = await self._blocks.read(scope.name, HOUR, [day])
            known = await asyncio.to_thread(_joined, held, scope, [day], HOUR, DAY)
            fine = scope.history.means(day // FINE, DAY // FINE)
            merged = await asyncio.to_thread(_merged, known, fine)
            await self._blocks.write(await asyncio.to_thread(_blocks, scope, HOUR, day, merged), COARSE_KEEP)

    async def days(self, name: str, subject: str, days: int, minute: int) -> Samples:
        """Return the means of hours of a subject over the last days, up to a minute. Raises PelotonError."""
        scope = next(each for each in self._scopes if each.name == name)
        today = minute * MINUTE // DAY * DAY
        starts = range(today - days * DAY, today + DAY, DAY)
        rows = await self._blocks.read(name, HOUR, starts, _part(subject))
        found = await asyncio.to_thread(_joined, rows, scope, starts, HOUR, DAY)
        width, count = len(scope.columns), len(starts) * 24
        values = found.get(subject, np.full((count, width), np.nan, np.float32))
        recent = _hours(scope.history.means((today - DAY) // FINE, 2 * DAY // FINE, [subject]))
        if subject in recent:
            values[-48:] = np.where(np.isnan(recent[subject]), values[-48:], recent[subject])
        end = minute * MINUTE // HOUR + 1 - starts[0] // HOUR
        begin = max(end - days * 24, 0)
        return Samples((starts[0] + begin * HOUR) // MINUTE, HOUR // MINUTE, values[begin:end])


def _part(subject: str) -> int:
    return zlib.crc32(subject.encode()) % PARTS


def _blocks(scope: Scope, step: int, start: int, values: Mapping[str, Values]) -> list[HistoryBlock]:
    """Return the blocks of one begin."""
    parts: dict[int, list[str]] = {}
    for subject, some in values.items():
        if not np.isnan(some).all():
            parts.setdefault(_part(subject), []).append(subject)
    return [
        HistoryBlock(
            scope.name, step, start, part, _encoded(scope.columns, {each: values[each] for each in some})
        )
        for part, some in sorted(parts.items())
    ]


def _encoded(columns: Sequence[str], values: Mapping[str, Values]) -> bytes:
    """Return the body of a block: names as a line of JSON, then numbers by subject, column and time."""
    head = json.dumps({"columns": list(columns), "subjects": list(values)}, separators=(",", ":"))
    numbers = np.stack([each.T for each in values.values()]).astype("<f4")
    return zlib.compress(head.encode() + b"\n" + numbers.tobytes(), 1)


def _decoded(body: bytes, columns: Sequence[str]) -> dict[str, Values]:
    """Return the values of a block by subject; NaN in columns that its writer did not have."""
    head, _, numbers = zlib.decompress(body).partition(b"\n")
    names: dict[str, list[str]] = json.loads(head)
    held, subjects = names["columns"], names["subjects"]
    shaped = np.frombuffer(numbers, "<f4").reshape(len(subjects), len(held), -1)
    found = np.full((len(subjects), shaped.shape[2], len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        if column in held:
            found[:, :, place] = shaped[:, held.index(column), :]
    return dict(zip(subjects, found, strict=True))


def _joined(
    rows: Sequence[HistoryBlock], scope: Scope, starts: Sequence[int], step: int, seconds: int
) -> dict[str, Values]:
    """Return the values by subject of blocks that follow each other, each of `seconds`."""
    each = seconds // step
    places = {start: at * each for at, start in enumerate(starts)}
    found: dict[str, Values] = {}
    for row in rows:
        try:
            values = _decoded(row.body, scope.columns)
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            log.warning("a block of the history of the %s cannot be read: %r", scope.name, error)
            continue
        at = places[row.start]
        for subject, some in values.items():
            if len(some) == each:
                if subject not in found:
                    found[subject] = np.full((len(starts) * each, len(scope.columns)), np.nan, np.float32)
                found[subject][at : at + each] = some
    return found


def _hours(fine: Mapping[str, Values]) -> dict[str, Values]:
    """Return means of hours of means of five minutes; NaN where there is none."""
    found = {}
    for subject, values in fine.items():
        by_hour = values.reshape(-1, HOUR // FINE, values.shape[1])
        known = ~np.isnan(by_hour)
        counts = known.sum(axis=1)
        mean = np.full(counts.shape, np.nan, np.float32)
        np.divide(np.where(known, by_hour, 0).sum(axis=1), counts, out=mean, where=counts > 0)
        found[subject] = mean
    return found


def _merged(known: Mapping[str, Values], fine: Mapping[str, Values]) -> dict[str, Values]:
    """Return means of hours: those that are held, and newer ones where there are some."""
    found = dict(known)
    for subject, values in _hours(fine).items():
        found[subject] = np.where(np.isnan(values), found[subject], values) if subject in found else values
    return found

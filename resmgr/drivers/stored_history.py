"""The history of pools and of the cluster in the store: what a leader has sampled, for the next ones.

Means of five minutes are in blocks of an hour for a day, those of an hour in blocks of a day, for weeks.
Subjects are spread over a few blocks by their names, so that the history of one is read without all others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peloton.errors import PelotonError
from peloton.model.history import HistoryBlock
from resmgr.core.monitoring.history import LONG_STEP_MINUTES, History, Samples, Values
from storage.histories.samples import (
    DAY,
    FINE,
    HOUR,
    MINUTE,
    blocks_of,
    hours_of,
    joined,
    overlaid,
    part_of,
)
from storage.interface import History as Blocks

log = logging.getLogger(__name__)
FINE_KEEP, COARSE_KEEP = 26 * HOUR, 36 * DAY
"""Seconds for which blocks are kept."""
MOST_DAYS = COARSE_KEEP // DAY - 1
"""Days that can be read."""


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
            scope.history.restore(
                minute, await asyncio.to_thread(joined, rows, scope.columns, starts, HOUR // FINE)
            )

    async def write(self, minute: int) -> None:
        """Store what has been sampled up to a minute, where a sample is whole. Failures are logged."""
        if minute % LONG_STEP_MINUTES:
            return
        hour = (minute - 1) * MINUTE // HOUR * HOUR
        try:
            for scope in self._scopes:
                values = scope.history.means(hour // FINE, HOUR // FINE)
                blocks = await asyncio.to_thread(blocks_of, scope.name, scope.columns, FINE, hour, values)
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
            known = await asyncio.to_thread(joined, held, scope.columns, [day], DAY // HOUR)
            fine = scope.history.means(day // FINE, DAY // FINE)
            blocks = await asyncio.to_thread(_of_day, scope, day, known, fine)
            await self._blocks.write(blocks, COARSE_KEEP)

    async def days(self, name: str, subject: str, days: int, minute: int) -> Samples:
        """Return the means of hours of a subject over the last days, up to a minute. Raises PelotonError."""
        scope = next(each for each in self._scopes if each.name == name)
        today = minute * MINUTE // DAY * DAY
        starts = range(today - days * DAY, today + DAY, DAY)
        rows = await self._blocks.read(name, HOUR, starts, part_of(subject))
        found = await asyncio.to_thread(joined, rows, scope.columns, starts, DAY // HOUR, subject)
        width, count = len(scope.columns), len(starts) * 24
        values = found.get(subject, np.full((count, width), np.nan, np.float32))
        recent = hours_of(scope.history.means((today - DAY) // FINE, 2 * DAY // FINE, [subject]))
        if subject in recent:
            values[-48:] = np.where(np.isnan(recent[subject]), values[-48:], recent[subject])
        end = minute * MINUTE // HOUR + 1 - starts[0] // HOUR
        begin = max(end - days * 24, 0)
        return Samples((starts[0] + begin * HOUR) // MINUTE, HOUR // MINUTE, values[begin:end])


def _of_day(
    scope: Scope, day: int, known: Mapping[str, Values], fine: Mapping[str, Values]
) -> list[HistoryBlock]:
    """Return the blocks of a day: hours that are known, and newer ones."""
    return blocks_of(scope.name, scope.columns, HOUR, day, overlaid(known, hours_of(fine)))

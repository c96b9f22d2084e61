"""Events in the store: the newest of each day, for weeks, in few rows, for pages and the next leaders."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from peloton.clock import NANOSECONDS, Clock
from peloton.errors import PelotonError
from peloton.model.history import HistoryBlock
from storage.histories.samples import DAY
from storage.interface import History

KEEP = 36 * DAY
"""Seconds for which events are kept."""
CHUNK = 500
"""Events of a block."""
CHUNKS = 64
"""Blocks of a day: of more than 32,000 events, the newest are kept."""
PAUSE = 60.0
"""Seconds between two writes. The first after a quiet time is made soon."""
SOON = 1.0
LATEST = float("inf")
"""Before that, all events are."""
Event = Mapping[str, str | float | Sequence[int]]
"""What JSON can say; `at` is its time, in seconds since 1970."""
Wanted = Callable[[Event], bool]
log = logging.getLogger(__name__)


def time_of(event: Event) -> float:
    """Return the time of an event, in seconds since 1970."""
    return number_of(event, "at")


def number_of(event: Event, name: str) -> float:
    """Return a number of an event; 0 where its writer did not know it."""
    found = event.get(name, 0.0)
    return found if isinstance(found, int | float) else 0.0


def text_of(event: Event, name: str) -> str:
    """Return a text of an event; empty where its writer did not know it."""
    found = event.get(name, "")
    return found if isinstance(found, str) else ""


def numbers_of(event: Event, name: str) -> Sequence[int]:
    """Return the numbers of an event; none where its writer did not know them."""
    found = event.get(name, ())
    return () if isinstance(found, str | int | float) else found


class EventLog:
    """Writes events of one kind, and reads them. One writes at a time."""

    def __init__(self, blocks: History, scope: str, clock: Clock, pause: float = PAUSE) -> None:
        """Keep events under the name `scope`."""
        self._blocks = blocks
        self._clock = clock
        self._scope = scope
        self._pause = pause
        self._fresh: list[Event] = []
        self._open: tuple[int, int, list[Event]] | None = None
        """The block to which is added: its day and part, and what it holds. None: not known yet."""
        self._came = asyncio.Event()

    def add(self, event: Event) -> None:
        """Add an event that happens now. It is stored later."""
        self._fresh.append(event)
        del self._fresh[: -CHUNK * CHUNKS]
        self._came.set()

    async def run(self) -> NoReturn:
        """Store events for ever."""
        while True:
            await self._came.wait()
            await asyncio.sleep(SOON)
            await self.write()
            await asyncio.sleep(self._pause)

    async def write(self) -> None:
        """Store what was added. A failure is logged, and it is tried again with the next call."""
        self._came.clear()
        try:
            while self._fresh:
                await self._write_some()
        except PelotonError as error:
            log.warning("the history of the %s is not stored: %s", self._scope, error)
            self._came.set()

    async def read(self, before: float, limit: int, wanted: Wanted = lambda _: True) -> list[Event]:
        """Return the newest events before a time, the newest first. Raises PelotonError."""
        fresh = list(self._fresh)
        found = [each for each in reversed(fresh) if time_of(each) < before and wanted(each)]
        written_meanwhile = {json.dumps(each) for each in fresh}
        today = int(min(before, self._clock.wall() / NANOSECONDS + DAY)) // DAY * DAY
        for day in range(today, today - KEEP, -DAY):
            if len(found) >= limit:
                break
            rows = await self._blocks.read(self._scope, DAY, [day])
            stored = await asyncio.to_thread(_sorted, rows)
            found += [
                each
                for each in stored
                if time_of(each) < before and json.dumps(each) not in written_meanwhile and wanted(each)
            ]
        return found[:limit]

    async def _write_some(self) -> None:
        """Write a block with the oldest events that are not stored."""
        day = int(time_of(self._fresh[0])) // DAY * DAY
        if self._open is None or self._open[0] != day:
            self._open = await self._last(day)
        part, held = self._open[1:]
        if len(held) >= CHUNK:
            part, held = (part + 1) % CHUNKS, []
        some = self._fresh[: CHUNK - len(held)]
        some = [each for each in some if int(time_of(each)) // DAY * DAY == day]
        block = [*held, *some]
        body = await asyncio.to_thread(_encoded, block)
        await self._blocks.write([HistoryBlock(self._scope, DAY, day, part, body)], KEEP)
        self._open = day, part, block
        written = set(map(id, some))
        self._fresh = [each for each in self._fresh if id(each) not in written]

    async def _last(self, day: int) -> tuple[int, int, list[Event]]:
        """Return the newest block of a day, an empty one where there is none."""
        rows = await self._blocks.read(self._scope, DAY, [day])
        blocks = [(row.part, _decoded(row)) for row in rows]
        part, events = max(blocks, key=lambda each: _newest(each[1]), default=(0, []))
        return day, part, events


def _newest(events: Sequence[Event]) -> float:
    return max((time_of(each) for each in events), default=0.0)


def _sorted(rows: Iterable[HistoryBlock]) -> list[Event]:
    """Return the events of blocks, the newest first."""
    events = [event for row in rows for event in reversed(_decoded(row))]
    return sorted(events, key=lambda each: -time_of(each))


def _encoded(events: Sequence[Event]) -> bytes:
    return zlib.compress(json.dumps(events, separators=(",", ":")).encode())


def _decoded(row: HistoryBlock) -> list[Event]:
    """Return the events of a block. One that cannot be read is logged, and has none."""
    try:
        found: list[Event] = json.loads(zlib.decompress(row.body))
        return [each for each in found if time_of(each) > 0]
    except (ValueError, AttributeError, TypeError, zlib.error) as error:
        log.warning("a block of the history of the %s cannot be read: %r", row.scope, error)
        return []

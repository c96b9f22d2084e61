"""What jobs hold and use over time, in the store: so that it is shown under the next leaders, too."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NoReturn

from jobmgr.core.job_courses import Point
from peloton.clock import NANOSECONDS, Clock
from peloton.errors import Fenced, Unavailable
from peloton.model.ids import JobId
from peloton.model.shard import shard_of
from storage.histories.courses import READ_HOURS, Kept, Span, StoredCourses
from storage.interface import History

KEEP_DAYS = 7
"""Days for which means of five minutes are kept. Accounts have those of hours, for longer."""
COLUMNS = ("held cores", "used cores", "held MB", "used MB")
SPAN_SECONDS = (READ_HOURS - 1) * 3600
"""Seconds that are read at a time."""
KNOWN = 256
"""Jobs of which what was read is kept for some seconds: pages ask again and again."""
KNOWN_SECONDS = 60.0


class JobHistory:
    """Writes and reads. Each shard is a part: where several share the work, each writes those it owns."""

    def __init__(self, blocks: History, clock: Clock) -> None:
        kept = Kept("jobs", COLUMNS, KEEP_DAYS * 86_400, part=lambda job_id: shard_of(JobId(job_id)))
        self._stored = StoredCourses(blocks, kept)
        self._clock = clock
        self._read: OrderedDict[JobId, tuple[float, float, Sequence[Span]]] = OrderedDict()
        """When it was read, until when it reaches, and what it was."""

    def add(self, job_id: JobId, point: Point) -> None:
        """Take what came of a job."""
        self._stored.add(job_id, point.since, point.until, point.amounts)

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Forget jobs that another instance follows from now on."""
        self._stored.drop(lambda job_id: dropped(JobId(job_id)))
        self._read.clear()

    async def run(self, pause: float, check: Callable[[], None]) -> NoReturn:
        """Store for ever what came; `check` raises Fenced or Unavailable where nothing may be written now."""
        while True:
            await asyncio.sleep(pause)
            try:
                check()
            except (Fenced, Unavailable):
                continue
            await self.write()

    async def write(self) -> None:
        """Store what came. Failures are logged, and tried again with the next call."""
        await self._stored.write(self._clock.wall() / NANOSECONDS)

    async def read(self, job_id: JobId, since: float, until: float, before: bool) -> Sequence[Span]:
        """Return what a job has held and used in the last day of a time. Raises PelotonError.

        With `before`, without what came here of the five minutes of `until`: it belongs behind it.
        """
        if until - since < 1:
            return ()
        now = self._clock.monotonic()
        known = self._read.get(job_id)
        if known is not None and known[1] == until and now < known[0] + KNOWN_SECONDS:
            return known[2]
        found = await self._stored.recent(job_id, max(since, until - SPAN_SECONDS), until, before)
        self._read[job_id] = now, until, found
        self._read.move_to_end(job_id)
        while len(self._read) > KNOWN:
            self._read.popitem(last=False)
        return found

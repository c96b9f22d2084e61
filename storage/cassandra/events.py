"""Pod events: the history of each instance's runs, beside its task (`storage.cassandra.tasks`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from peloton.clock import SystemClock
from peloton.model.ids import JobId
from peloton.model.task import PodEvent
from storage.cassandra.ranges import token_ranges
from storage.cassandra.session import Row, Session
from storage.cassandra.tasks import BUCKET, LARGEST
from storage.cassandra.terms import Gate
from storage.codec import POD_EVENT
from storage.event_order import END_STEPS

KEPT_NANOSECONDS = 90 * 24 * 3600 * 1_000_000_000
"""The same as default_time_to_live of pod_events."""
_EVENTS_AT_ONCE = 200


class _EndedRuns:
    """Determines whether the runs of rows have ended, for rows ordered by instance and newest run first."""

    def __init__(self) -> None:
        self._instance: Row = ()
        self._newest = 0
        self._over = False

    def has_ended(self, row: Row) -> bool:
        """Return whether the run of a row has ended. Call it for each row in order."""
        instance, run, step = row[:3], row[3], row[5]
        if instance != self._instance:
            self._instance, self._newest, self._over = instance, run, False
        if run < self._newest:
            return True
        self._over = self._over or step in END_STEPS
        return self._over


class CassandraPodEvents:
    """Pod events in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def list(
        self, job_id: JobId, instance: int, run: int | None = None, runs: int = 10
    ) -> Sequence[PodEvent]:
        """Return events of one run, or of the last `runs` runs."""
        if instance > LARGEST or (run or 0) > LARGEST:
            return ()
        async with self._session.use():
            if run is None:
                rows = await self._of_last_runs(job_id, instance, runs)
            else:
                rows = await self._session.rows("read_run_events", job_id, instance // BUCKET, instance, run)
        return tuple(
            POD_EVENT.decode(text, job_id=job_id, instance=instance, run=of_run, timestamp=at)
            for of_run, at, text in rows
        )

    async def delete(self, job_id: JobId, instance: int, up_to_run: int) -> None:
        """Delete the events of runs 1 … up_to_run."""
        if instance > LARGEST:
            return
        key = (job_id, instance // BUCKET, instance)
        await self._gate.run(
            job_id, lambda when: self._session.write("delete_runs", when, *key, min(up_to_run, LARGEST))
        )

    async def expire(self, before: int) -> int:
        """Drop events of ended runs older than `before`; return their number.

        The database drops events itself 90 days after they were written, so that there is nothing to do for a
        time that long ago. For a later time all events are read.
        """
        if before <= SystemClock().wall() - KEPT_NANOSECONDS:
            return 0
        dropped = 0
        async with self._gate() as when:
            for low, high in token_ranges(16):
                ended = _EndedRuns()
                async for page in self._session.pages("scan_events", low, high):
                    old = [row for row in page if ended.has_ended(row) and row[4] < before]
                    dropped += await self._drop(old, when)
        return dropped

    async def _of_last_runs(self, job_id: JobId, instance: int, runs: int) -> Sequence[Row]:
        """Read events, newest run first, up to the last run that is needed."""
        found: list[Row] = []
        seen: set[int] = set()
        key = (job_id, instance // BUCKET, instance)
        async for page in self._session.pages("read_events", *key, size=_EVENTS_AT_ONCE):
            for row in page:
                seen.add(row[0])
                if len(seen) > runs:
                    return found
                found.append(row)
        return found

    async def _drop(self, rows: Sequence[Row], when: int) -> int:
        await asyncio.gather(*(self._session.write("delete_event", when, *row) for row in rows))
        return len(rows)

"""The account of what jobs have held, used and lost: by job, by hour, and by groups in hours and days."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

from peloton.model.accounting import HOUR_SECONDS, JobHour, PeriodUsage
from peloton.model.ids import JobId
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.session import Session
from storage.cassandra.terms import Gate
from storage.codec import JOB_HOUR, PERIOD

BUCKET = 32
"""Periods in a partition."""
_ROWS = 100
"""Rows in one mutation."""
_READS = _WRITES = 32
"""Partitions that are read or written concurrently."""


class CassandraUsage:
    """The account in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def write(self, rows: Sequence[JobHour]) -> None:
        """Insert or replace rows of jobs: by hour first, so that a job's row is never without the hour's."""
        by_hour = defaultdict[int, list[tuple[JobHour, str]]](list)
        for row in rows:
            by_hour[row.hour].append((row, JOB_HOUR.encode(row)))
        async with self._gate() as when:
            for hour, some in by_hour.items():
                await self._together(
                    [("put_hour_usage", (hour, row.job_id, body, when)) for row, body in some]
                )
                for at in range(0, len(some), _WRITES):
                    await asyncio.gather(
                        *(
                            self._session.write("put_job_usage", row.job_id, hour, body, when)
                            for row, body in some[at : at + _WRITES]
                        )
                    )

    async def last(self, job_ids: Sequence[JobId]) -> Mapping[JobId, JobHour]:
        """Return the newest row of each job that has one."""
        found: dict[JobId, JobHour] = {}
        async with self._session.use():
            for at in range(0, len(job_ids), _READS):
                some = job_ids[at : at + _READS]
                rows = await asyncio.gather(
                    *(self._session.row("read_last_job_usage", each) for each in some)
                )
                for job_id, row in zip(some, rows, strict=True):
                    if row is not None:
                        found[job_id] = JOB_HOUR.decode(row[1], job_id=job_id, hour=row[0])
        return found

    async def of_job(self, job_id: JobId, since: int) -> Sequence[JobHour]:
        """Return the rows of a job, in order."""
        async with self._session.use():
            rows = await self._session.rows("read_job_usage", job_id, since)
        return [JOB_HOUR.decode(body, job_id=job_id, hour=hour) for hour, body in rows]

    async def of_hour(self, hour: int) -> AsyncIterator[Sequence[JobHour]]:
        """Yield the rows of all jobs for one hour."""
        async with self._session.use():
            async for rows in self._session.pages("read_hour_usage", hour):
                yield [JOB_HOUR.decode(body, job_id=job_id, hour=hour) for job_id, body in rows]

    async def close(self, seconds: int, start: int, rows: Sequence[PeriodUsage]) -> None:
        """Write the account of a period, and afterwards that it is closed."""
        bucket = start // (seconds * BUCKET)
        put = "put_usage_hour" if seconds == HOUR_SECONDS else "put_usage_day"
        async with self._gate() as when:
            # What an earlier try has written is older than this deletion, and these rows are newer.
            await self._session.write("clear_usage_period", when - 1, seconds, bucket, start)
            await self._together(
                [
                    (put, (seconds, bucket, start, number, PERIOD.encode(row), when))
                    for number, row in enumerate(rows)
                ]
            )
            await self._session.write("close_usage", seconds, start, when)

    async def closed(self, seconds: int) -> int | None:
        """Return the begin of the last period that is closed."""
        async with self._session.use():
            row = await self._session.row("read_usage_closed", seconds)
        return None if row is None else int(row[0])

    async def periods(self, seconds: int, since: int, until: int) -> AsyncIterator[Sequence[PeriodUsage]]:
        """Yield the periods of a length, in order."""
        async with self._session.use():
            for bucket in range(since // (seconds * BUCKET), (until - 1) // (seconds * BUCKET) + 1):
                key = (seconds, bucket, since, until)
                async for rows in self._session.pages("read_usage_periods", *key):
                    yield [PERIOD.decode(body, seconds=seconds, start=at) for at, body in rows]

    async def expire(self, jobs_before: int, hours_before: int, days_before: int) -> None:
        """Do nothing: the database drops rows by itself."""

    async def _together(self, parts: Sequence[Bound]) -> None:
        for at in range(0, len(parts), _ROWS):
            await self._session.write_together(parts[at : at + _ROWS])

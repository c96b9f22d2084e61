"""The account of what jobs have held, used and lost."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from peloton.model.accounting import DAY_SECONDS, HOUR_SECONDS, JobHour, PeriodUsage
from peloton.model.ids import JobId
from storage.codec import JOB_HOUR, PERIOD
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Writer

PAGE = 5000
PUT = "INSERT OR REPLACE INTO usage_of_jobs (job_id, hour, body)"
LAST = "SELECT hour, body FROM usage_of_jobs WHERE job_id = ? ORDER BY hour DESC LIMIT 1"
OF_JOB = "SELECT hour, body FROM usage_of_jobs WHERE job_id = ? AND hour >= ? ORDER BY hour"
OF_HOUR = "SELECT job_id, body FROM usage_of_jobs WHERE hour = ? AND job_id > ? ORDER BY job_id LIMIT ?"
CLEAR_PERIOD = "DELETE FROM usage_periods WHERE seconds = ? AND start = ?"
PUT_PERIOD = "INSERT INTO usage_periods (seconds, start, number, body)"
CLOSE = (
    "INSERT INTO usage_closed (seconds, start) VALUES (?, ?) "
    "ON CONFLICT (seconds) DO UPDATE SET start = max(start, excluded.start)"
)
CLOSED = "SELECT start FROM usage_closed WHERE seconds = ?"
PERIODS = (
    "SELECT start, number, body FROM usage_periods "
    "WHERE seconds = ? AND (start, number) > (?, ?) AND start < ? ORDER BY start, number LIMIT ?"
)
EXPIRE_JOBS = "DELETE FROM usage_of_jobs WHERE hour < ?"
EXPIRE_PERIODS = "DELETE FROM usage_periods WHERE seconds = ? AND start < ?"


class SqliteUsage:
    """The account in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def write(self, rows: Sequence[JobHour]) -> None:
        """Insert or replace rows of jobs."""
        values: list[object] = []
        for row in rows:
            values += (row.job_id, row.hour, JOB_HOUR.encode(row))
        await self._writer.submit(lambda db: insert(db, PUT, 3, values), len(rows) + 1)

    async def last(self, job_ids: Sequence[JobId]) -> Mapping[JobId, JobHour]:
        """Return the newest row of each job that has one."""

        def read(db: sqlite3.Connection) -> dict[JobId, tuple[int, str]]:
            found = ((job_id, db.execute(LAST, (job_id,)).fetchone()) for job_id in job_ids)
            return {job_id: row for job_id, row in found if row is not None}

        rows = await self._readers.run(read)
        return {
            job_id: JOB_HOUR.decode(body, job_id=job_id, hour=hour) for job_id, (hour, body) in rows.items()
        }

    async def of_job(self, job_id: JobId, since: int) -> Sequence[JobHour]:
        """Return the rows of a job, in order."""
        rows = await self._readers.run(lambda db: db.execute(OF_JOB, (job_id, since)).fetchall())
        return [JOB_HOUR.decode(body, job_id=job_id, hour=hour) for hour, body in rows]

    async def of_hour(self, hour: int) -> AsyncIterator[Sequence[JobHour]]:
        """Yield the rows of all jobs for one hour."""
        after = ""
        while True:
            key = (hour, after, PAGE)
            rows = await self._readers.run(partial(_rows, OF_HOUR, key))
            if rows:
                yield [JOB_HOUR.decode(body, job_id=job_id, hour=hour) for job_id, body in rows]
            if len(rows) < PAGE:
                return
            after = rows[-1][0]

    async def close(self, seconds: int, start: int, rows: Sequence[PeriodUsage]) -> None:
        """Write the account of a period, and that it is closed."""
        values: list[object] = []
        for number, row in enumerate(rows):
            values += (seconds, start, number, PERIOD.encode(row))

        def write(db: sqlite3.Connection) -> None:
            db.execute(CLEAR_PERIOD, (seconds, start))
            insert(db, PUT_PERIOD, 4, values)
            db.execute(CLOSE, (seconds, start))

        await self._writer.submit(write, len(rows) + 2)

    async def closed(self, seconds: int) -> int | None:
        """Return the begin of the last period that is closed."""
        row = await self._readers.run(lambda db: db.execute(CLOSED, (seconds,)).fetchone())
        return None if row is None else int(row[0])

    async def periods(self, seconds: int, since: int, until: int) -> AsyncIterator[Sequence[PeriodUsage]]:
        """Yield the periods of a length, in order."""
        start, number = since, -1
        while True:
            key = (seconds, start, number, until, PAGE)
            rows = await self._readers.run(partial(_rows, PERIODS, key))
            if rows:
                yield [PERIOD.decode(body, seconds=seconds, start=at) for at, _, body in rows]
            if len(rows) < PAGE:
                return
            start, number = rows[-1][:2]

    async def expire(self, jobs_before: int, hours_before: int, days_before: int) -> None:
        """Drop rows that begin before these times."""

        def write(db: sqlite3.Connection) -> None:
            db.execute(EXPIRE_JOBS, (jobs_before,))
            db.execute(EXPIRE_PERIODS, (HOUR_SECONDS, hours_before))
            db.execute(EXPIRE_PERIODS, (DAY_SECONDS, days_before))

        await self._writer.submit(write, 3)


def _rows(statement: str, key: tuple[object, ...], db: sqlite3.Connection) -> list[Any]:
    return db.execute(statement, key).fetchall()

"""Pod events: the history of each instance's runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial

from peloton.model.ids import JobId
from peloton.model.task import PodEvent
from storage.codec import POD_EVENT
from storage.event_order import END_STEPS, STEP
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Write, Writer

INSERT = "INSERT OR REPLACE INTO pod_events (job_id, instance, run, timestamp, step, event)"
SELECT_RUN = """
SELECT run, timestamp, event FROM pod_events
WHERE job_id = ? AND instance = ? AND run = ?
ORDER BY timestamp DESC, step DESC
"""
SELECT_RUNS = """
SELECT run, timestamp, event FROM pod_events
WHERE job_id = :job_id AND instance = :instance AND run IN (
    SELECT DISTINCT run FROM pod_events
    WHERE job_id = :job_id AND instance = :instance
    ORDER BY run DESC LIMIT :runs
)
ORDER BY run DESC, timestamp DESC, step DESC
"""
DELETE_RUNS = "DELETE FROM pod_events WHERE job_id = ? AND instance = ? AND run <= ?"
_ENDS = ", ".join(map(str, sorted(END_STEPS)))
SELECT_OLD = f"""
SELECT timestamp, job_id, instance, run, step,
    EXISTS (
        SELECT 1 FROM pod_events AS newer
        WHERE newer.job_id = old.job_id AND newer.instance = old.instance AND newer.run > old.run
    ) OR EXISTS (
        SELECT 1 FROM pod_events AS ending
        WHERE ending.job_id = old.job_id AND ending.instance = old.instance AND ending.run = old.run
            AND ending.step IN ({_ENDS})
    )
FROM pod_events AS old
WHERE (timestamp, job_id, instance, run, step) > (?, ?, ?, ?, ?) AND timestamp < ?
ORDER BY timestamp, job_id, instance, run, step LIMIT ?
"""
"""A page of events by age, each with whether its run has ended."""
DELETE_ONE = (
    "DELETE FROM pod_events WHERE timestamp = ? AND job_id = ? AND instance = ? AND run = ? AND step = ?"
)
_EXAMINED_AT_ONCE = 2000
_FIRST = (-(2**63), "", -1, -1, -1)
_Key = tuple[int, str, int, int, int]


def appending(events: Sequence[PodEvent]) -> Write[None]:
    """Return the write of these events, encoded now.

    Events of one run, time and state are one event, of which the last one stays.
    """
    values: list[object] = []
    encode = POD_EVENT.encoder()
    for event in events:
        step = STEP[event.state]
        values += (event.job_id, event.instance, event.run, event.timestamp, step, encode(event))
    return lambda db: insert(db, INSERT, 6, values)


class SqlitePodEvents:
    """Pod events in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def list(
        self, job_id: JobId, instance: int, run: int | None = None, runs: int = 10
    ) -> Sequence[PodEvent]:
        """Return events of one run, or of the last `runs` runs."""
        return await self._readers.run(partial(_list, job_id, instance, run, runs))

    async def delete(self, job_id: JobId, instance: int, up_to_run: int) -> None:
        """Delete the events of runs 1 … up_to_run."""
        key = (job_id, instance, up_to_run)
        await self._writer.submit(lambda db: db.execute(DELETE_RUNS, key).rowcount, job_id=job_id)

    async def expire(self, before: int) -> int:
        """Drop events of ended runs older than `before`; return their number.

        This is done page by page, so that other reads and writes run in between. Events of runs that have not
        ended are read each time.
        """
        dropped, last = 0, _FIRST
        while True:
            page = await self._readers.run(partial(_old, last, before))
            ended = [key for key, over in page if over]
            if ended:
                dropped += await self._writer.submit(partial(_drop, ended), len(ended))
            if len(page) < _EXAMINED_AT_ONCE:
                return dropped
            last = page[-1][0]


def _old(last: _Key, before: int, db: sqlite3.Connection) -> Sequence[tuple[_Key, bool]]:
    rows = db.execute(SELECT_OLD, (*last, before, _EXAMINED_AT_ONCE)).fetchall()
    return [((row[0], row[1], row[2], row[3], row[4]), bool(row[5])) for row in rows]


def _drop(keys: Sequence[_Key], db: sqlite3.Connection) -> int:
    return db.executemany(DELETE_ONE, keys).rowcount


def _list(
    job_id: JobId, instance: int, run: int | None, runs: int, db: sqlite3.Connection
) -> Sequence[PodEvent]:
    if run is None:
        rows = db.execute(SELECT_RUNS, {"job_id": job_id, "instance": instance, "runs": runs})
    else:
        rows = db.execute(SELECT_RUN, (job_id, instance, run))
    return tuple(
        POD_EVENT.decode(event, job_id=job_id, instance=instance, run=of_run, timestamp=timestamp)
        for of_run, timestamp, event in rows.fetchall()
    )

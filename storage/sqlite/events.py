"""Pod events: the history of each instance's runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial

from peloton.model.ids import JobId
from peloton.model.task import PodEvent
from storage.codec import POD_EVENT
from storage.eventorder import STEP
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
OLD = "SELECT job_id, instance, run, timestamp, step FROM pod_events WHERE timestamp < ? LIMIT ?"
EXPIRE = f"DELETE FROM pod_events WHERE (job_id, instance, run, timestamp, step) IN ({OLD})"
_EXPIRED_AT_ONCE = 5000


def appending(events: Sequence[PodEvent]) -> Write[None]:
    """The write of these events; encoded here and now. One run's events of one moment and one state
    are the same event: the later one stays."""
    values: list[object] = []
    encode = POD_EVENT.encoder()
    for event in events:
        step = STEP[event.state]
        values += (event.job_id, event.instance, event.run, event.timestamp, step, encode(event))
    return lambda db: insert(db, INSERT, 6, values)


class SqlitePodEvents:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def append(self, events: Sequence[PodEvent]) -> None:
        await self._writer.submit(appending(events), len(events))

    async def list(
        self, job_id: JobId, instance: int, run: int | None = None, runs: int = 10
    ) -> Sequence[PodEvent]:
        return await self._readers.run(partial(_list, job_id, instance, run, runs))

    async def delete(self, job_id: JobId, instance: int, up_to_run: int) -> None:
        key = (job_id, instance, up_to_run)
        await self._writer.submit(lambda db: db.execute(DELETE_RUNS, key).rowcount)

    async def expire(self, before: int) -> int:
        """In several transactions, so that other writes come in between."""
        gone = 0
        while True:
            some = await self._writer.submit(
                lambda db: db.execute(EXPIRE, (before, _EXPIRED_AT_ONCE)).rowcount, _EXPIRED_AT_ONCE
            )
            gone += some
            if some < _EXPIRED_AT_ONCE:
                return gone


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

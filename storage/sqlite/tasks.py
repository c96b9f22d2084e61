"""Task runtimes: one row per instance."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from functools import partial

from peloton.errors import NotFound
from peloton.model.ids import JobId, task_id
from peloton.model.task import TaskRuntime
from storage.codec import TASK_RUNTIME
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Write, Writer

PAGE = 10_000

REPLACE = "INSERT OR REPLACE INTO tasks (job_id, instance, state, runtime)"
SELECT_ONE = "SELECT runtime FROM tasks WHERE job_id = ? AND instance = ?"
# Many tasks have equal runtimes, as waiting ones do: each text is returned once, with all its instances.
SELECT_PAGE = """
SELECT '[' || coalesce(group_concat('[' || runtime || ',[' || instances || ']]'), '') || ']'
FROM (
    SELECT runtime, group_concat(instance) AS instances FROM (
        SELECT instance, runtime FROM tasks
        WHERE job_id = :job_id AND instance >= :first AND instance < :end
        ORDER BY instance LIMIT :page
    )
    GROUP BY runtime
)
"""
_UNBOUNDED = 2**63 - 1


def writing(job_id: JobId, runtimes: Mapping[int, TaskRuntime]) -> Write[None]:
    """Return the write of these rows, encoded now, once for all tasks that share a runtime object."""
    values: list[object] = []
    encoded: dict[int, str] = {}
    for instance, runtime in runtimes.items():
        text = encoded.get(id(runtime))
        if text is None:
            text = encoded[id(runtime)] = TASK_RUNTIME.encode(runtime)
        values += (job_id, instance, int(runtime.state), text)
    return lambda db: insert(db, REPLACE, 4, values)


class SqliteTasks:
    """Task runtimes in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def get(self, job_id: JobId, instance: int) -> TaskRuntime:
        """Return the runtime of an instance. Raises NotFound."""
        return await self._readers.run(partial(_get, job_id, instance))

    async def list(
        self, job_id: JobId, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Mapping[int, TaskRuntime]]:
        """Yield instances first … end-1 in order, in pages of at most 10,000."""
        end = _UNBOUNDED if end is None else end
        while first < end:
            page = await self._readers.run_long(partial(_page, job_id, first, end))
            if page:
                yield page
            if len(page) < PAGE:
                return
            last = max(page)
            assert first <= last < end, f"a page of instances {first} to {end - 1} ends at {last}"
            first = last + 1


def _get(job_id: JobId, instance: int, db: sqlite3.Connection) -> TaskRuntime:
    row = db.execute(SELECT_ONE, (job_id, instance)).fetchone()
    if row is None:
        raise NotFound(f"task {task_id(job_id, instance)} is not stored")
    return TASK_RUNTIME.decode(row[0])


def _page(job_id: JobId, first: int, end: int, db: sqlite3.Connection) -> dict[int, TaskRuntime]:
    bounds = {"job_id": job_id, "first": first, "end": end, "page": PAGE}
    (text,) = db.execute(SELECT_PAGE, bounds).fetchone()
    found: dict[int, TaskRuntime] = {}
    for values, instances in json.loads(text):
        found.update(dict.fromkeys(instances, TASK_RUNTIME.from_values(values)))
    return {instance: found[instance] for instance in sorted(found)}

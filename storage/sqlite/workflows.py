"""Workflows of services and their events."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    Workflow,
    WorkflowEvent,
    WorkflowId,
    WorkflowState,
    WorkflowType,
)
from storage.codec import WORKFLOW
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Write, Writer

PUT_WORKFLOW = "INSERT OR REPLACE INTO workflows (workflow_id, job_id, number, workflow)"
PUT_EVENT = "INSERT OR REPLACE INTO workflow_events (workflow_id, instance, timestamp, state, type)"
SELECT_WORKFLOW = "SELECT workflow FROM workflows WHERE workflow_id = ?"
SELECT_OF_JOB = "SELECT workflow FROM workflows WHERE job_id = ? ORDER BY number DESC, workflow_id LIMIT ?"
SELECT_EVENTS = """
SELECT timestamp, state, type FROM workflow_events
WHERE workflow_id = ? AND instance = ?
ORDER BY timestamp DESC, state DESC LIMIT ?
"""
DELETE_OF_JOB = (
    "DELETE FROM workflow_events WHERE workflow_id IN (SELECT workflow_id FROM workflows WHERE job_id = ?)",
    "DELETE FROM workflows WHERE job_id = ?",
)
SELECT_IDS = "SELECT workflow_id FROM workflows WHERE job_id = ? ORDER BY number DESC, workflow_id"
DELETE_ONE = (
    "DELETE FROM workflow_events WHERE workflow_id = ?",
    "DELETE FROM workflows WHERE workflow_id = ?",
)
_NO_LIMIT = -1


def writing(workflows: Sequence[Workflow], events: Sequence[WorkflowEvent]) -> Write[None]:
    """Return the write of workflows and their events, encoded now."""
    rows: list[object] = []
    for workflow in workflows:
        rows += (workflow.id, workflow.job_id, workflow.workflow_version, WORKFLOW.encode(workflow))
    steps: list[object] = []
    for event in events:
        steps += (event.workflow_id, event.instance, event.timestamp, int(event.state), int(event.type))

    def write(db: sqlite3.Connection) -> None:
        insert(db, PUT_WORKFLOW, 4, rows)
        insert(db, PUT_EVENT, 5, steps)

    return write


class SqliteWorkflows:
    """Workflows in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def get(self, workflow_id: WorkflowId) -> Workflow:
        """Return a workflow. Raises NotFound."""
        return await self._readers.run(partial(_get, workflow_id))

    async def list(self, job_id: JobId, limit: int) -> Sequence[Workflow]:
        """Return the last workflows of a job, newest first."""
        rows = await self._readers.run(lambda db: db.execute(SELECT_OF_JOB, (job_id, limit)).fetchall())
        return tuple(WORKFLOW.decode(text) for (text,) in rows)

    async def events(
        self, workflow_id: WorkflowId, instance: int = WHOLE_WORKFLOW, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        """Return the last events of a workflow, or of one of its instances, newest first; 0: all."""
        return await self._readers.run(partial(_events, workflow_id, instance, limit or _NO_LIMIT))

    async def prune(self, job_id: JobId, keep: int, current: WorkflowId) -> int:
        """Delete the workflows of a job with their events, but for the last `keep` ones and `current`."""
        rows = await self._readers.run(lambda db: db.execute(SELECT_IDS, (job_id,)).fetchall())
        old = [workflow_id for (workflow_id,) in rows[keep:] if workflow_id != current]
        for workflow_id in old:
            await self._writer.submit(partial(_delete, workflow_id), job_id=job_id)
        return len(old)


def _delete(workflow_id: WorkflowId, db: sqlite3.Connection) -> None:
    for statement in DELETE_ONE:
        db.execute(statement, (workflow_id,))


def _get(workflow_id: WorkflowId, db: sqlite3.Connection) -> Workflow:
    row = db.execute(SELECT_WORKFLOW, (workflow_id,)).fetchone()
    if row is None:
        raise NotFound(f"workflow {workflow_id} is not stored")
    return WORKFLOW.decode(row[0])


def _events(
    workflow_id: WorkflowId, instance: int, limit: int, db: sqlite3.Connection
) -> Sequence[WorkflowEvent]:
    job_id = _get(workflow_id, db).job_id
    rows = db.execute(SELECT_EVENTS, (workflow_id, instance, limit)).fetchall()
    return tuple(
        WorkflowEvent(workflow_id, job_id, instance, WorkflowType(kind), WorkflowState(state), timestamp)
        for timestamp, state, kind in rows
    )

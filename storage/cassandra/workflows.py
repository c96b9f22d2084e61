"""Workflows of services and their events."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

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
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.session import Row, Session
from storage.cassandra.tasks import BUCKET, LARGEST, Rows
from storage.cassandra.terms import Gate
from storage.codec import WORKFLOW

_EVENTS_AT_ONCE = 1000
_WHOLE_BUCKET = WHOLE_WORKFLOW // BUCKET


class WorkflowRows:
    """Writes workflows and their events. Called within the gate of the job."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def write(self, workflows: Sequence[Workflow], events: Sequence[WorkflowEvent], when: int) -> None:
        """Write workflows and events. A workflow can be found by its id as soon as its row is there."""
        for workflow in workflows:
            key = (workflow.id, workflow.job_id, workflow.workflow_version)
            await self._session.write("put_workflow_job", *key, when)
        parts = [list(self._workflows(workflows, when))] if workflows else []
        sent = [self._session.write_together(part) for part in (*parts, *_parts(events, when))]
        await asyncio.gather(*sent)

    async def drop(self, workflow: Workflow, when: int) -> None:
        """Delete a workflow of a job that was not created."""
        key = (workflow.job_id, workflow.workflow_version, workflow.id)
        await self._session.write("delete_workflow", when, *key)
        await self._session.write("delete_workflow_job", when, workflow.id)

    async def delete(self, job_id: JobId, buckets: Iterable[int], when: int) -> None:
        """Delete all workflows of a job, its list of them last, so that this may be repeated."""
        ids = [workflow_id for (workflow_id,) in await self._session.rows("read_workflow_ids", job_id)]
        for workflow_id in ids:
            await self._delete_rest(workflow_id, buckets, when)
        if ids:
            await self._session.write("delete_workflows", when, job_id)

    async def prune(
        self, job_id: JobId, keep: int, current: WorkflowId, buckets: Iterable[int], when: int
    ) -> int:
        """Delete all but the last `keep` workflows and `current`, the row that lists each one last."""
        rows = await self._session.rows("read_workflow_numbers", job_id)
        old = [(number, workflow_id) for number, workflow_id in rows[keep:] if workflow_id != current]
        for number, workflow_id in old:
            await self._delete_rest(workflow_id, buckets, when)
            await self._session.write("delete_workflow", when, job_id, number, workflow_id)
        return len(old)

    async def _delete_rest(self, workflow_id: WorkflowId, buckets: Iterable[int], when: int) -> None:
        """Delete the events of a workflow, and its row by id."""
        for bucket in (_WHOLE_BUCKET, *buckets):
            await self._session.write("delete_workflow_events", when, workflow_id, bucket)
        await self._session.write("delete_workflow_job", when, workflow_id)

    def _workflows(self, workflows: Sequence[Workflow], when: int) -> Iterable[Bound]:
        for workflow in workflows:
            key = (workflow.job_id, workflow.workflow_version, workflow.id)
            yield "put_workflow", (*key, WORKFLOW.encode(workflow), when)


class CassandraWorkflows:
    """Workflows in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate, tasks: Rows, rows: WorkflowRows) -> None:
        self._session = session
        self._gate = gate
        self._tasks = tasks
        self._rows = rows

    async def get(self, workflow_id: WorkflowId) -> Workflow:
        """Return a workflow. Raises NotFound."""
        async with self._session.use():
            return await self._get(workflow_id)

    async def list(self, job_id: JobId, limit: int) -> Sequence[Workflow]:
        """Return the last workflows of a job, newest first."""
        async with self._session.use():
            rows = await self._session.rows("read_workflows", job_id, min(limit, LARGEST))
        return tuple(WORKFLOW.decode(text) for (text,) in rows)

    async def events(
        self, workflow_id: WorkflowId, instance: int = WHOLE_WORKFLOW, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        """Return the last events of a workflow, or of one of its instances, newest first; 0: all."""
        async with self._session.use():
            job_id = (await self._get(workflow_id)).job_id
            rows: Sequence[Row] = ()
            if instance <= LARGEST:
                key = (workflow_id, instance // BUCKET, instance)
                most = min(limit or LARGEST, LARGEST)
                rows = await self._session.rows("read_workflow_events", *key, most)
        return tuple(
            WorkflowEvent(workflow_id, job_id, instance, WorkflowType(kind), WorkflowState(state), at)
            for at, state, kind in rows
        )

    async def prune(self, job_id: JobId, keep: int, current: WorkflowId) -> int:
        """Delete the workflows of a job with their events, but for the last `keep` ones and `current`."""

        async def write(when: int) -> int:
            buckets = await self._tasks.buckets(job_id)
            return await self._rows.prune(job_id, keep, current, buckets, when)

        return await self._gate.run(job_id, write)

    async def _get(self, workflow_id: WorkflowId) -> Workflow:
        place = await self._session.row("read_workflow_job", workflow_id)
        row = None if place is None else await self._session.row("read_workflow", *place, workflow_id)
        if row is None:
            raise NotFound(f"workflow {workflow_id} is not stored")
        return WORKFLOW.decode(row[0])


def _parts(events: Sequence[WorkflowEvent], when: int) -> Iterable[list[Bound]]:
    """Return the rows of events by partition, in parts of bounded size."""
    partitions: defaultdict[tuple[str, int], list[Bound]] = defaultdict(list)
    for event in events:
        bucket = event.instance // BUCKET
        values = (event.instance, event.timestamp, int(event.state), int(event.type), when)
        row = ("put_workflow_event", (event.workflow_id, bucket, *values))
        partitions[event.workflow_id, bucket].append(row)
    for rows in partitions.values():
        for at in range(0, len(rows), _EVENTS_AT_ONCE):
            yield rows[at : at + _EVENTS_AT_ONCE]

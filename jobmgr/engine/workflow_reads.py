"""What is read of workflows: how far they are, their events, the versions of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.workflow.history import without_repeats
from jobmgr.engine.engine import Engine
from peloton.model.ids import JobId
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    EntityVersion,
    Workflow,
    WorkflowEvent,
    WorkflowId,
    WorkflowStatus,
    instances_in,
)


class WorkflowReads:
    """Reads of the workflows that an engine runs, or ran. All raise what `Workflows` says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def find(self, workflow_id: WorkflowId) -> WorkflowStatus:
        """Return a workflow by its id."""
        workflow = await self._engine.store.workflows.get(workflow_id)
        return await self._status(workflow)

    async def current(self, job_id: JobId) -> WorkflowStatus | None:
        """Return the job's workflow that runs, or ran last; None where there was none."""
        job = await self._engine.find(job_id)
        return None if job is None else self.status(job)

    def status(self, job: CachedJob) -> WorkflowStatus | None:
        """Return the workflow of a job in memory that runs, or ran last; None where there was none."""
        if job.workflow is None:
            return None
        return self._engine.lanes.lane(job.job_id).core.rollouts.status(job.workflow)

    async def list(self, job_id: JobId, limit: int = 10) -> Sequence[WorkflowStatus]:
        """Return the job's last workflows, newest first. Also for a job without any."""
        job = await self._engine.find(job_id)
        current = "" if job is None or job.workflow is None else job.workflow.id
        stored = await self._engine.store.workflows.list(job_id, limit + 1)
        # One that has not ended and is not the job's was cut off when it was to begin.
        kept = [each for each in stored if each.state.terminal or each.id == current]
        return [await self._status(each) for each in kept[:limit]]

    async def events(
        self, workflow_id: WorkflowId, instance: int | None = None, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        """Return events of a workflow (None) or of one of its instances, newest first; limit 0: all."""
        of = WHOLE_WORKFLOW if instance is None else instance
        # All are read: how many of them are repeats is not known before.
        events = without_repeats(await self._engine.store.workflows.events(workflow_id, of))
        return events[:limit] if limit else events

    async def all_events(self, workflow_id: WorkflowId, limit: int = 0) -> dict[int, Sequence[WorkflowEvent]]:
        """Return the last `limit` events of each instance of a workflow, newest first."""
        workflow = await self._engine.store.workflows.get(workflow_id)
        concerned = [*workflow.added, *workflow.updated, *workflow.removed]
        found: dict[int, Sequence[WorkflowEvent]] = {}
        for instance in instances_in(sorted(concerned)):
            events = await self.events(workflow_id, instance, limit)
            if events:
                found[instance] = events
        return found

    async def version(self, job_id: JobId) -> EntityVersion:
        """Return the job's entity version."""
        job = await self._engine.find(job_id)
        runtime = job.runtime if job is not None else await self._engine.store.jobs.runtime(job_id)
        return EntityVersion(runtime.config_version, runtime.desired_state_version, runtime.workflow_version)

    async def _status(self, workflow: Workflow) -> WorkflowStatus:
        job = await self._engine.find(workflow.job_id)
        if job is None or job.workflow is None or job.workflow.id != workflow.id:
            return WorkflowStatus(workflow)
        return self._engine.lanes.lane(workflow.job_id).core.rollouts.status(job.workflow)

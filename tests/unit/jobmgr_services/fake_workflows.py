"""Workflows that only keep books: each call notes what it was asked and takes the next version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jobmgr.engine.workflows import Begun
from peloton.errors import Conflict, InvalidArgument
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.states import JobState
from peloton.model.workflow import (
    ConfigDiff,
    EntityVersion,
    Range,
    Ranges,
    Workflow,
    WorkflowEvent,
    WorkflowOptions,
    WorkflowState,
    WorkflowStatus,
    WorkflowType,
)
from peloton.wire.v1alpha.job_status import entity_version

STALE = "unexpected entity version"


class FakeWorkflows:
    """Over a FakeEngine. `asked` has what was called with; `events_of` what is stored of events."""

    def __init__(self, engine: Any, wall: Callable[[], int]) -> None:
        self._engine = engine
        self._wall = wall
        self.asked: list[tuple[Any, ...]] = []
        self.held: dict[JobId, list[Workflow]] = {}
        self.events_of: list[WorkflowEvent] = []

    async def create_job(
        self,
        job_id: JobId,
        spec: JobSpec,
        options: WorkflowOptions,
        opaque_data: str = "",
        secrets: SecretBytes = NO_SECRETS,
    ) -> Begun:
        await self._engine.create_job(job_id, spec, secrets)
        cached = self._engine.held[job_id]
        cached.runtime = replace(cached.runtime, goal=JobState.RUNNING)
        return self._begin(job_id, WorkflowType.UPDATE, spec.version, (), options, opaque_data)

    async def replace(
        self,
        job_id: JobId,
        spec: JobSpec,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> Begun:
        self._check(job_id, expected)
        await self._engine.store.jobs.add_config(job_id, spec, secrets)
        cached = self._engine.held[job_id]
        cached.spec = cached.specs[spec.version] = spec
        cached.runtime = replace(cached.runtime, config_version=spec.version)
        return self._begin(job_id, WorkflowType.UPDATE, spec.version, (), options, opaque_data)

    async def restart(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        self._check(job_id, expected)
        version = self._engine.held[job_id].spec.version
        return self._begin(job_id, WorkflowType.RESTART, version, ranges, options, opaque_data)

    async def pause(
        self, job_id: JobId, opaque_data: str = "", expected: EntityVersion | None = None
    ) -> EntityVersion:
        return self._steer(job_id, WorkflowState.PAUSED, opaque_data, expected)

    async def resume(
        self, job_id: JobId, opaque_data: str = "", expected: EntityVersion | None = None
    ) -> EntityVersion:
        return self._steer(job_id, WorkflowState.ROLLING_FORWARD, opaque_data, expected)

    async def abort(
        self,
        job_id: JobId,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        soft: bool = False,
    ) -> EntityVersion:
        return self._steer(job_id, WorkflowState.ABORTED, opaque_data, expected)

    async def start_job(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        return self._aim(job_id, JobState.RUNNING, expected)

    async def stop_job(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        return self._aim(job_id, JobState.KILLED, expected)

    async def delete_job(
        self, job_id: JobId, expected: EntityVersion | None = None, force: bool = False
    ) -> None:
        self._check(job_id, expected)
        self.asked.append(("delete", force))
        if not force and self._engine.held[job_id].runtime.state is not JobState.KILLED:
            raise Conflict("the job is not KILLED")

    async def current(self, job_id: JobId) -> WorkflowStatus | None:
        return self.status(self._engine.held[job_id]) if job_id in self._engine.held else None

    def status(self, job: Any) -> WorkflowStatus | None:
        held = self.held.get(job.job_id)
        return WorkflowStatus(held[-1], current=(1,)) if held else None

    async def list(self, job_id: JobId, limit: int = 10) -> Sequence[WorkflowStatus]:
        return [WorkflowStatus(each) for each in reversed(self.held.get(job_id, []))][:limit]

    async def events(
        self, workflow_id: str, instance: int | None = None, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        wanted = -1 if instance is None else instance
        found = [e for e in self.events_of if (e.workflow_id, e.instance) == (workflow_id, wanted)]
        return found[: limit or None]

    async def all_events(self, workflow_id: str, limit: int = 0) -> dict[int, Sequence[WorkflowEvent]]:
        instances = {e.instance for e in self.events_of if e.instance >= 0}
        return {i: await self.events(workflow_id, i, limit) for i in instances}

    async def diff(self, job_id: JobId, spec: JobSpec, expected: EntityVersion | None = None) -> ConfigDiff:
        self._check(job_id, expected)
        present = self._engine.held[job_id].spec.instance_count
        added = (Range(present, spec.instance_count),) if spec.instance_count > present else ()
        return ConfigDiff(added, (), (Range(0, 1),), (Range(1, present),))

    def _check(self, job_id: JobId, expected: EntityVersion | None) -> None:
        if expected is not None and expected != entity_version(self._engine.held[job_id].runtime):
            raise Conflict(STALE)

    def _begin(
        self,
        job_id: JobId,
        kind: WorkflowType,
        version: int,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str,
    ) -> Begun:
        workflows = self.held.setdefault(job_id, [])
        workflow = Workflow(
            id=f"w{len(workflows)}",
            job_id=job_id,
            type=kind,
            state=WorkflowState.ROLLING_FORWARD,
            options=options,
            config_version=version,
            previous_version=version - 1,
            ranges=ranges,
            updated=(Range(0, 3),),
            opaque_data=opaque_data,
            done=1,
            remaining=2,
            created_at=self._wall(),
        )
        workflows.append(workflow)
        return Begun(workflow.id, self._next(job_id))

    def _steer(
        self, job_id: JobId, state: WorkflowState, opaque_data: str, expected: EntityVersion | None
    ) -> EntityVersion:
        self._check(job_id, expected)
        held = self.held[job_id]
        if held[-1].state.terminal:
            raise InvalidArgument("workflow", held[-1].state.name, "a workflow that runs")
        data = opaque_data or held[-1].opaque_data
        held[-1] = replace(held[-1], state=state, previous_state=held[-1].state, opaque_data=data)
        return self._next(job_id)

    def _aim(self, job_id: JobId, goal: JobState, expected: EntityVersion | None) -> EntityVersion:
        self._check(job_id, expected)
        cached = self._engine.held[job_id]
        desired = cached.runtime.desired_state_version + (cached.runtime.goal is not goal)
        cached.runtime = replace(cached.runtime, goal=goal, desired_state_version=desired)
        return entity_version(cached.runtime)

    def _next(self, job_id: JobId) -> EntityVersion:
        cached = self._engine.held[job_id]
        cached.runtime = replace(cached.runtime, workflow_version=cached.runtime.workflow_version + 1)
        return entity_version(cached.runtime)

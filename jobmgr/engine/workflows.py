"""Workflows as the services see them: what is asked is stored when a call returns.

Every call that changes a job takes `expected`, the entity version that the caller has seen last (None: the
caller does not care), and answers with the job's new one. All raise NotFound for an unknown job or workflow,
Unavailable while the store cannot answer, Fenced where this process no longer leads,
StaleVersion for a version that is not the present one, and InvalidArgument where another workflow or
the job's type is in the way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import (
    JobGoalRequested,
    WorkflowAction,
    WorkflowRepeated,
    WorkflowRequested,
    WorkflowSteered,
)
from jobmgr.engine import job_log
from jobmgr.engine.config_diff import config_diff
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflow_reads import WorkflowReads
from peloton.errors import Conflict, InvalidArgument
from peloton.identity.principal import author
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.states import JobState, JobType
from peloton.model.workflow import (
    ConfigDiff,
    EntityVersion,
    Ranges,
    Workflow,
    WorkflowId,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from peloton.wire.payload import revised, same_config

_TRIES = 5
"""Of a call without an expected version that others' calls come before."""


class Begun(NamedTuple):
    """A workflow that is stored, and the version of its job with it."""

    workflow_id: WorkflowId
    version: EntityVersion


class Workflows(WorkflowReads):
    """The workflows of the services that an engine runs: what changes them, and what is read of them."""

    def __init__(self, engine: Engine, new_id: Callable[[], WorkflowId] = lambda: str(uuid4())) -> None:
        super().__init__(engine)
        self._new_id = new_id

    async def create_job(
        self,
        job_id: JobId,
        spec: JobSpec,
        options: WorkflowOptions,
        opaque_data: str = "",
        secrets: SecretBytes = NO_SECRETS,
    ) -> Begun:
        """Store a new service (`spec.version` 1) whose instances are added by an UPDATE from nothing.

        `secrets` are the contents that the spec's payload refers to. Raises AlreadyExists.
        `Engine.create_job` creates one without a workflow, all instances at once.
        """
        now = self._engine.clock.wall()
        workflow = replace(
            self._fresh(job_id, WorkflowType.UPDATE, options, opaque_data),
            config_version=spec.version,
            remaining=spec.instance_count,
            created_at=now,
            updated_at=now,
        )
        runtime = JobRuntime(
            state=JobState.INITIALIZED,
            goal=JobState.RUNNING,
            config_version=spec.version,
            creation_time=now,
            updated_at=now,
            workflow_version=1,
            update_id=workflow.id,
        )
        await self._engine.start_creating(job_id, spec, runtime, workflow, secrets)
        return Begun(workflow.id, _version(spec, runtime))

    async def replace(
        self,
        job_id: JobId,
        spec: JobSpec,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> Begun:
        """Start an UPDATE to a spec, whose version is given by the engine. It aborts an UPDATE that runs.

        `secrets` are the new contents that the spec's payload refers to. Repeating the UPDATE that runs only
        takes the new opaque data and a new workflow version.
        """
        workflow = self._fresh(job_id, WorkflowType.UPDATE, options, opaque_data)

        async def ask(job: CachedJob) -> Begun:
            _check_fixed(job.spec, spec)
            running = _running(job)
            if running is not None and _is_same(job, running, spec, workflow):
                return await self._repeat(job_id, running, opaque_data, expected)
            return await self._begin(job, workflow, spec, expected, secrets)

        return await self._try(job_id, expected, ask)

    async def restart(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start a RESTART of the instances in half-open ranges; no range: all. Stopped ones are started."""
        return await self._same_config(job_id, WorkflowType.RESTART, ranges, options, opaque_data, expected)

    async def start(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start a START of stopped instances, by batches."""
        return await self._same_config(job_id, WorkflowType.START, ranges, options, opaque_data, expected)

    async def stop(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start a STOP of instances, by batches. One of all makes the job's goal KILLED at its end."""
        return await self._same_config(job_id, WorkflowType.STOP, ranges, options, opaque_data, expected)

    async def pause(
        self,
        job_id: JobId,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        workflow_id: WorkflowId = "",
    ) -> EntityVersion:
        """Halt the job's workflow after what is in flight; nothing where it is PAUSED.

        Raises InvalidArgument where no workflow runs, or `workflow_id` is given and another one runs, as the
        following calls do.
        """
        return await self._steer(job_id, WorkflowAction.PAUSE, opaque_data, expected, workflow_id)

    async def resume(
        self,
        job_id: JobId,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        workflow_id: WorkflowId = "",
    ) -> EntityVersion:
        """Let the job's paused workflow go on; nothing where it goes on."""
        return await self._steer(job_id, WorkflowAction.RESUME, opaque_data, expected, workflow_id)

    async def abort(
        self,
        job_id: JobId,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        soft: bool = False,
        workflow_id: WorkflowId = "",
    ) -> EntityVersion:
        """End the job's workflow, instances stay as they are. `soft`: after what is in flight."""
        action = WorkflowAction.ABORT_SOFTLY if soft else WorkflowAction.ABORT
        return await self._steer(job_id, action, opaque_data, expected, workflow_id)

    async def roll_back(
        self, job_id: JobId, expected: EntityVersion | None = None, workflow_id: WorkflowId = ""
    ) -> EntityVersion:
        """Bring the instances back to the config before the job's UPDATE that runs."""
        return await self._steer(job_id, WorkflowAction.ROLL_BACK, "", expected, workflow_id)

    async def start_job(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        """Make the job's goal RUNNING and start all stopped instances at once."""
        return await self._goal(job_id, JobState.RUNNING, expected)

    async def stop_job(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        """Make the job's goal KILLED.

        Raises Conflict while an update that starts stopped instances runs.
        """
        return await self._goal(job_id, JobState.KILLED, expected)

    async def delete_job(
        self, job_id: JobId, expected: EntityVersion | None = None, force: bool = False
    ) -> None:
        """Remove a service that is KILLED; with `force` any one: it is stopped first, and removed afterwards.

        Raises Conflict for one that is not KILLED.
        """
        job = await self._service(job_id)
        if not force and job.runtime.state is not JobState.KILLED:
            state = job.runtime.state.name
            raise Conflict(f"the job is {state}: stop it first, or delete it with force")
        await self._goal(job_id, JobState.DELETED, expected)

    async def diff(self, job_id: JobId, spec: JobSpec, expected: EntityVersion | None = None) -> ConfigDiff:
        """Return what an UPDATE to a spec would do to each instance, and why."""
        job = await self._service(job_id)
        _version(job.spec, job.runtime).check(expected)
        _check_fixed(job.spec, spec)
        version = max(job.specs) + 1
        workflow = replace(
            self._fresh(job_id, WorkflowType.UPDATE, WorkflowOptions(), ""), config_version=version
        )
        return config_diff(job, spec, workflow)

    def _fresh(
        self, job_id: JobId, type_: WorkflowType, options: WorkflowOptions, opaque_data: str
    ) -> Workflow:
        return Workflow(
            id=self._new_id(),
            job_id=job_id,
            type=type_,
            state=WorkflowState.INITIALIZED,
            options=options,
            config_version=0,
            previous_version=0,
            opaque_data=opaque_data,
            by=author(),
        )

    async def _same_config(
        self,
        job_id: JobId,
        type_: WorkflowType,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str,
        expected: EntityVersion | None,
    ) -> Begun:
        """Start a workflow that leaves the config as it is; it has a version of its own all the same."""
        workflow = replace(self._fresh(job_id, type_, options, opaque_data), ranges=ranges)

        async def ask(job: CachedJob) -> Begun:
            running = _running(job)
            if running is not None and _is_repeated(running, workflow):
                return await self._repeat(job_id, running, opaque_data, expected)
            payload = revised(job.spec.payload, job.spec.version + 1, self._engine.clock.wall(), workflow.by)
            return await self._begin(job, workflow, replace(job.spec, payload=payload), expected)

        return await self._try(job_id, expected, ask)

    async def _try(
        self, job_id: JobId, expected: EntityVersion | None, ask: Callable[[CachedJob], Awaitable[Begun]]
    ) -> Begun:
        """Ask, and again where the job was changed meanwhile and the caller does not care."""
        for tries_left in range(_TRIES - 1, -1, -1):
            job = await self._service(job_id)
            _version(job.spec, job.runtime).check(expected)
            try:
                return await ask(job)
            except Conflict:
                if expected is not None or not tries_left:
                    raise
        raise Conflict(f"job {job_id} is changed by others all the time")

    async def _begin(
        self,
        job: CachedJob,
        workflow: Workflow,
        spec: JobSpec,
        expected: EntityVersion | None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> Begun:
        running = _running(job)
        if running is not None and not (running.type is workflow.type is WorkflowType.UPDATE):
            what = (
                f"possible while {running.type.name} {running.id} is {running.state.name}: abort it, or wait"
            )
            raise InvalidArgument("workflow", workflow.type.name, what)
        base = job.spec.version
        newest = max(base, *job.specs) + 1
        stored = await self._engine.store_version(job.job_id, replace(spec, version=newest), secrets)
        event = WorkflowRequested(job.job_id, workflow, stored, base, expected)
        version: EntityVersion = await self._engine.lanes.request(event)
        job_log.asked(job.job_id, f"{workflow.type.name} {workflow.id} to version {stored.version} begun")
        return Begun(workflow.id, version)

    async def _repeat(
        self, job_id: JobId, running: Workflow, opaque_data: str, expected: EntityVersion | None
    ) -> Begun:
        event = WorkflowRepeated(job_id, running.id, opaque_data, expected)
        version: EntityVersion = await self._engine.lanes.request(event)
        return Begun(running.id, version)

    async def _steer(
        self,
        job_id: JobId,
        action: WorkflowAction,
        opaque_data: str,
        expected: EntityVersion | None,
        workflow_id: WorkflowId,
    ) -> EntityVersion:
        await self._service(job_id)
        event = WorkflowSteered(job_id, action, opaque_data, expected, workflow_id, author())
        version: EntityVersion = await self._engine.lanes.request(event)
        job_log.asked(job_id, f"workflow {action.value}")
        return version

    async def _goal(self, job_id: JobId, goal: JobState, expected: EntityVersion | None) -> EntityVersion:
        await self._service(job_id)
        event = JobGoalRequested(job_id, goal, expected, author())
        version: EntityVersion = await self._engine.lanes.request(event)
        job_log.asked(job_id, f"goal {goal.name}")
        return version

    async def _service(self, job_id: JobId) -> CachedJob:
        """Return a service. Raises NotFound, and InvalidArgument for a batch job."""
        job = await self._engine.find(job_id)
        if job is None or job.spec.type is JobType.BATCH:
            raise InvalidArgument("type", "BATCH", "a service: only services have workflows and versions")
        return job


def _running(job: CachedJob) -> Workflow | None:
    workflow = job.workflow
    return None if workflow is None or workflow.state.terminal else workflow


def _is_same(job: CachedJob, running: Workflow, spec: JobSpec, wanted: Workflow) -> bool:
    """Return whether an update to `spec` is the one that runs."""
    held = job.specs.get(running.config_version)
    return (
        _is_repeated(running, wanted)
        and not running.rolling_back
        and held is not None
        and same_config(held.payload, spec.payload)
    )


def _is_repeated(running: Workflow, wanted: Workflow) -> bool:
    same = (running.type, running.options, running.ranges) == (wanted.type, wanted.options, wanted.ranges)
    return same and not running.aborting


def _check_fixed(old: JobSpec, new: JobSpec) -> None:
    if new.type is not old.type:
        raise InvalidArgument("type", new.type.name, f"{old.type.name}: the type of a job cannot change")
    if new.pool_id != old.pool_id:
        raise InvalidArgument("respool_id", new.pool_id, f"{old.pool_id}: the pool of a job cannot change")


def _version(spec: JobSpec, runtime: JobRuntime) -> EntityVersion:
    return EntityVersion(spec.version, runtime.desired_state_version, runtime.workflow_version)

"""Workflows as the services see them: what is asked is stored when a call returns.

Every call that changes a job takes `expected`, the entity version that the caller has seen last (None: the
caller does not care), and answers with the job's new one. All raise NotFound for an unknown job or workflow,
Unavailable while the store cannot answer, Fenced where this process no longer leads,
Conflict("unexpected entity version") for a stale version, and InvalidArgument where another workflow or
the job's type is in the way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol
from uuid import uuid4

from jobmgr.core.job.requests import STALE
from jobmgr.core.state.cache import NOT_CREATED, CachedJob
from jobmgr.core.state.events import (
    JobGoalRequested,
    WorkflowAction,
    WorkflowRepeated,
    WorkflowRequested,
    WorkflowSteered,
)
from jobmgr.core.workflow.history import without_repeats
from jobmgr.core.workflow.requests import diff
from jobmgr.core.workflow.stages import Aim
from jobmgr.engine import story
from jobmgr.engine.lanes import Lanes
from peloton.errors import Conflict, InvalidArgument
from peloton.identity.principal import author
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.states import JobState, JobType
from peloton.model.workflow import (
    WHOLE_WORKFLOW,
    ConfigDiff,
    EntityVersion,
    Ranges,
    Workflow,
    WorkflowEvent,
    WorkflowId,
    WorkflowOptions,
    WorkflowState,
    WorkflowStatus,
    WorkflowType,
    instances_in,
)
from peloton.wire.payload import revised, same_config
from storage.interface import Store

_TRIES = 5
"""Of a call without an expected version that others' calls come before."""


class Jobs(Protocol):
    """What workflows need of the engine."""

    store: Store
    lanes: Lanes

    async def find(self, job_id: JobId) -> CachedJob | None:
        """Return an active job; None where it has ended. Raises NotFound."""
        ...

    async def start_creating(
        self,
        job_id: JobId,
        spec: JobSpec,
        runtime: JobRuntime,
        workflow: Workflow | None,
        secrets: SecretBytes = NO_SECRETS,
    ) -> None:
        """Store a new job and take it on. Raises AlreadyExists."""
        ...

    async def store_version(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> JobSpec:
        """Store a version of a config under the first number from `spec.version` on that is free."""
        ...


class Begun(NamedTuple):
    """A workflow that is stored, and the version of its job with it."""

    workflow_id: WorkflowId
    version: EntityVersion


class Workflows:
    """The workflows of services: `Engine.workflows`."""

    def __init__(
        self, jobs: Jobs, wall: Callable[[], int], new_id: Callable[[], WorkflowId] = lambda: str(uuid4())
    ) -> None:
        self._jobs = jobs
        self._wall = wall
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
        now = self._wall()
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
        await self._jobs.start_creating(job_id, spec, runtime, workflow, secrets)
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
        """Start a RESTART of the instances in half-open ranges; no range: of all. Stopped ones stay so."""
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

    async def find(self, workflow_id: WorkflowId) -> WorkflowStatus:
        """Return a workflow by its id."""
        workflow = await self._jobs.store.workflows.get(workflow_id)
        return await self._status(workflow)

    async def current(self, job_id: JobId) -> WorkflowStatus | None:
        """Return the job's workflow that runs, or ran last; None where there was none."""
        job = await self._jobs.find(job_id)
        return None if job is None else self.status(job)

    def status(self, job: CachedJob) -> WorkflowStatus | None:
        """Return the workflow of a job in memory that runs, or ran last; None where there was none."""
        if job.workflow is None:
            return None
        return self._jobs.lanes.lane(job.job_id).core.rollouts.status(job.workflow)

    async def list(self, job_id: JobId, limit: int = 10) -> Sequence[WorkflowStatus]:
        """Return the job's last workflows, newest first. Also for a job without any."""
        job = await self._jobs.find(job_id)
        current = "" if job is None or job.workflow is None else job.workflow.id
        stored = await self._jobs.store.workflows.list(job_id, limit + 1)
        # One that has not ended and is not the job's was cut off when it was to begin.
        kept = [each for each in stored if each.state.terminal or each.id == current]
        return [await self._status(each) for each in kept[:limit]]

    async def events(
        self, workflow_id: WorkflowId, instance: int | None = None, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        """Return events of a workflow (None) or of one of its instances, newest first; limit 0: all."""
        of = WHOLE_WORKFLOW if instance is None else instance
        # All are read: how many of them are repeats is not known before.
        events = without_repeats(await self._jobs.store.workflows.events(workflow_id, of))
        return events[:limit] if limit else events

    async def all_events(self, workflow_id: WorkflowId, limit: int = 0) -> dict[int, Sequence[WorkflowEvent]]:
        """Return the last `limit` events of each instance of a workflow, newest first."""
        workflow = await self._jobs.store.workflows.get(workflow_id)
        concerned = [*workflow.added, *workflow.updated, *workflow.removed]
        found: dict[int, Sequence[WorkflowEvent]] = {}
        for instance in instances_in(sorted(concerned)):
            events = await self.events(workflow_id, instance, limit)
            if events:
                found[instance] = events
        return found

    async def diff(self, job_id: JobId, spec: JobSpec, expected: EntityVersion | None = None) -> ConfigDiff:
        """Return what an UPDATE to a spec would do to each instance."""
        job = await self._service(job_id)
        _check_version(job, expected)
        _check_fixed(job.spec, spec)
        version = max(job.specs) + 1
        workflow = replace(
            self._fresh(job_id, WorkflowType.UPDATE, WorkflowOptions(), ""), config_version=version
        )
        aim = Aim(workflow, {**job.specs, version: spec}, job.runtime.goal)
        return diff(aim, len(job.tasks), lambda i: job.tasks[i] if i < len(job.tasks) else NOT_CREATED)

    async def version(self, job_id: JobId) -> EntityVersion:
        """Return the job's entity version."""
        job = await self._jobs.find(job_id)
        runtime = job.runtime if job is not None else await self._jobs.store.jobs.runtime(job_id)
        return EntityVersion(runtime.config_version, runtime.desired_state_version, runtime.workflow_version)

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
            payload = revised(job.spec.payload, job.spec.version + 1, self._wall(), workflow.by)
            return await self._begin(job, workflow, replace(job.spec, payload=payload), expected)

        return await self._try(job_id, expected, ask)

    async def _try(
        self, job_id: JobId, expected: EntityVersion | None, ask: Callable[[CachedJob], Awaitable[Begun]]
    ) -> Begun:
        """Ask, and again where the job was changed meanwhile and the caller does not care."""
        for tries_left in range(_TRIES - 1, -1, -1):
            job = await self._service(job_id)
            _check_version(job, expected)
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
        stored = await self._jobs.store_version(job.job_id, replace(spec, version=newest), secrets)
        event = WorkflowRequested(job.job_id, workflow, stored, base, expected)
        version: EntityVersion = await self._jobs.lanes.request(event)
        story.asked(job.job_id, f"{workflow.type.name} {workflow.id} to version {stored.version} begun")
        return Begun(workflow.id, version)

    async def _repeat(
        self, job_id: JobId, running: Workflow, opaque_data: str, expected: EntityVersion | None
    ) -> Begun:
        event = WorkflowRepeated(job_id, running.id, opaque_data, expected)
        version: EntityVersion = await self._jobs.lanes.request(event)
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
        version: EntityVersion = await self._jobs.lanes.request(event)
        story.asked(job_id, f"workflow {action.value}")
        return version

    async def _goal(self, job_id: JobId, goal: JobState, expected: EntityVersion | None) -> EntityVersion:
        await self._service(job_id)
        event = JobGoalRequested(job_id, goal, expected, author())
        version: EntityVersion = await self._jobs.lanes.request(event)
        story.asked(job_id, f"goal {goal.name}")
        return version

    async def _service(self, job_id: JobId) -> CachedJob:
        """Return a service. Raises NotFound, and InvalidArgument for a batch job."""
        job = await self._jobs.find(job_id)
        if job is None or job.spec.type is JobType.BATCH:
            raise InvalidArgument("type", "BATCH", "a service: only services have workflows and versions")
        return job

    async def _status(self, workflow: Workflow) -> WorkflowStatus:
        job = await self._jobs.find(workflow.job_id)
        if job is None or job.workflow is None or job.workflow.id != workflow.id:
            return WorkflowStatus(workflow)
        return self._jobs.lanes.lane(workflow.job_id).core.rollouts.status(job.workflow)


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


def _check_version(job: CachedJob, expected: EntityVersion | None) -> None:
    held = _version(job.spec, job.runtime)
    if expected is not None and expected != held:
        raise Conflict(STALE)


def _version(spec: JobSpec, runtime: JobRuntime) -> EntityVersion:
    return EntityVersion(spec.version, runtime.desired_state_version, runtime.workflow_version)

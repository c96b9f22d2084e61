"""The changes of one cycle to one job, laid over the cache until they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Unpack

from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.events import RunOf, Span
from jobmgr.core.state.in_flight import InFlight
from jobmgr.core.state.job_states import (
    ENDING_JOB_GOALS,
    MACHINE,
    SERVICE_MACHINE,
    JobCause,
    batch_cause,
    gang_cause,
    service_cause,
)
from jobmgr.core.state.revisions import Timestamps, next_revision, pod_event
from jobmgr.core.state.tallies import Tallies, total
from jobmgr.core.state.task_states import Cause, Details, state_after
from peloton.model.cluster import cluster_of
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, JobType, TaskState
from peloton.model.task import PodEvent, TaskRuntime, TaskSpec, Termination
from peloton.model.volume import Volume, VolumeId, VolumeState
from peloton.model.workflow import EntityVersion, Workflow, WorkflowEvent, WorkflowId, WorkflowType


class Change:
    """The next state of a job. It is read and written here, and reaches the cache with `commit`."""

    __slots__ = (
        "_desired_state_version",
        "_freed",
        "_now",
        "_ran",
        "_taken",
        "_tallies",
        "_timestamps",
        "_top",
        "_workflow_version",
        "counts",
        "events",
        "gangs",
        "gangs_again",
        "goal",
        "goal_by",
        "held",
        "in_flight",
        "job",
        "job_id",
        "kills",
        "lost_seconds",
        "released",
        "runtime",
        "schedule",
        "service",
        "spans",
        "spec",
        "specs",
        "suspended",
        "tasks",
        "unmet",
        "volumes",
        "withdrawals",
        "workflow",
        "workflow_events",
        "workflows",
    )

    def __init__(self, in_flight: InFlight, timestamps: Timestamps, wall: int) -> None:
        """Begin a change at `wall`, in nanoseconds since 1970."""
        job = in_flight.job
        self.job = job
        self.job_id: JobId = job.job_id
        self.in_flight = in_flight
        self.spec: JobSpec = job.spec
        """The newest version."""
        self.service = job.spec.type is not JobType.BATCH
        """Whether instances are always run again, and the job goes on until it is stopped."""
        self.specs: dict[int, JobSpec] = job.specs
        self.goal: JobState = job.runtime.goal
        self.goal_by = job.runtime.goal_by
        self._desired_state_version = job.runtime.desired_state_version
        self._workflow_version = job.runtime.workflow_version
        self.workflow: Workflow | None = job.workflow
        """The one that runs, or ran last."""
        self.workflows: dict[WorkflowId, Workflow] = {}
        """Those that this cycle begins or changes."""
        self.workflow_events: list[WorkflowEvent] = []
        self.volumes: dict[VolumeId, Volume] = {}
        """Those that this cycle creates or changes."""
        self.tasks: dict[int, TaskRuntime] = {}
        self.unmet = job.runtime.unmet
        """Jobs whose ends this one still waits for."""
        self.schedule = job.runtime.schedule
        self.suspended = job.runtime.suspended
        self.released = job.runtime.released
        """Instances of a batch job that are released, ended or not."""
        self._freed: set[int] = set()
        self._taken: set[int] = set()
        """Free numbers that this cycle uses again."""
        self._tallies = Tallies(job.counts)
        self.counts: dict[TaskState, int] = self._tallies.by_state
        """The number of instances by state."""
        self.events: list[PodEvent] = []
        self.runtime: JobRuntime | None = None
        self.gangs: list[tuple[RunOf, ...]] = []
        self.gangs_again: list[tuple[RunOf, ...]] = []
        """Gangs of runs that had been enqueued before and are missing in resmgr."""
        self.spans: list[Span] = []
        """Runs to compare with what resmgr holds."""
        self.withdrawals: list[RunOf] = []
        self.kills: dict[str, list[RunOf]] = {}
        """Runs to kill, by Mesos cluster."""
        self.held: list[tuple[RunOf, str]] = []
        """Those of the killed runs whose hosts are to be held for the next runs."""
        self.lost_seconds = 0.0
        """Of work since the last checkpoints of runs that end."""
        self._ran = False
        self._top = 0
        """One more than the highest instance that this cycle creates."""
        self._timestamps = timestamps
        self._now = wall

    @property
    def version(self) -> EntityVersion:
        """The version of the job with what this cycle changes about it."""
        return EntityVersion(self.spec.version, self._desired_state_version, self._workflow_version)

    def raise_desired_state(self) -> None:
        """Count a change of what the job is to do: earlier entity versions are stale."""
        self._desired_state_version += 1

    def raise_workflow(self) -> None:
        """Count a workflow that begins, or a request to it: earlier entity versions are stale."""
        self._workflow_version += 1

    @property
    def running_goal(self) -> TaskState:
        """The goal of an instance that shall run."""
        return TaskState.RUNNING if self.service else TaskState.SUCCEEDED

    @property
    def lives_on(self) -> bool:
        """Whether the job stays active when all its tasks have ended: it may be started again."""
        return self.service and self.goal is not JobState.DELETED

    @property
    def updating(self) -> bool:
        """Whether an UPDATE is under way."""
        running = self.workflow is not None and not self.workflow.state.terminal
        return running and self.workflow is not None and self.workflow.type is WorkflowType.UPDATE

    @property
    def size(self) -> int:
        """One more than the highest instance there may be, those that are being removed among them."""
        return max(self.spec.instance_count, len(self.job.tasks), self._top)

    @property
    def follows_hosts(self) -> bool:
        """Whether the job has an instance on each host that matches, in place of a number of instances."""
        return self.spec.type is JobType.DAEMON

    @property
    def instances(self) -> int:
        """Number of instances that a batch job has, those that are being released among them."""
        return self.spec.instance_count - len(self.job.free) - len(self._freed) + len(self._taken)

    def free_numbers(self, most: int) -> list[int]:
        """Return the lowest free numbers of a batch job, `most` at most."""
        free = (i for i in self.job.free if i not in self._taken)
        return list(islice(free, max(most, 0)))

    def next_host(self, task: TaskRuntime, host: str) -> str:
        """Return the desired host of a task's next run: `host`, but of a daemon job always the task's own."""
        return task.desired_host if self.follows_hosts else host

    def task(self, instance: int) -> TaskRuntime:
        """Return an instance's runtime; NOT_CREATED where there is no such instance, or no row yet."""
        held = self.tasks.get(instance)
        if held is not None:
            return held
        tasks = self.job.tasks
        return tasks[instance] if 0 <= instance < len(tasks) else NOT_CREATED

    def spec_of(self, instance: int) -> JobSpec:
        """Return the spec of the version that an instance has; the newest where it has no row yet."""
        task = self.task(instance)
        gone = task.state is TaskState.DELETED or task is NOT_CREATED
        return self.spec if gone else self.specs[task.config_version]

    def task_spec(self, instance: int) -> TaskSpec:
        """Return the instance's part of its spec."""
        return self.spec_of(instance).task(instance)

    def timestamp(self) -> int:
        """Return a wall time for a change that is made now."""
        return self._timestamps.next(self._now)

    def create(self, instances: Sequence[int], task: TaskRuntime) -> None:
        """Create the rows of instances, which share a runtime."""
        assert instances and min(instances) >= 0, f"{self.job_id}: no instances to create: {instances}"
        for instance in instances:
            self.tasks[instance] = task
            self.events.append(pod_event(self.job_id, instance, task))
        self._top = max(self._top, *(instance + 1 for instance in instances))
        self._tallies.count(task, len(instances))

    def put_workflow(self, workflow: Workflow, *events: WorkflowEvent) -> None:
        """Take the job's workflow as it is from now on."""
        held = self.workflow
        assert workflow.job_id == self.job_id, f"{workflow.id} is of {workflow.job_id}, not {self.job_id}"
        assert held is None or held.id != workflow.id or held.revision <= workflow.revision, (
            f"{workflow.id}: revision {workflow.revision} follows {held.revision}"
        )
        self.workflow = self.workflows[workflow.id] = workflow
        self.workflow_events += events

    def volume(self, volume_id: VolumeId) -> Volume | None:
        """Return a volume of the job; None where it has no such volume."""
        return self.volumes.get(volume_id) or self.job.volumes.get(volume_id)

    def put_volume(self, volume: Volume) -> None:
        """Take a volume as it is from now on."""
        self.volumes[volume.id] = volume

    def kill(self, instance: int, task: TaskRuntime) -> None:
        """Kill the run that an instance has."""
        assert task.run > 0, f"{self.job_id}-{instance} has no run to kill: it is {task.state.name}"
        self.kills.setdefault(cluster_of(task.host), []).append((instance, task.run))

    def move(self, instance: int, cause: Cause, **details: Unpack[Details]) -> TaskRuntime:
        """Take a task to the state that `cause` leads to, and set `details`. Return the new runtime.

        A step of the run becomes an event of its history. Raises IllegalTransition where the table of moves
        has no such step.
        """
        old = self.task(instance)
        state = state_after(self.job_id, instance, old, cause)
        new = next_revision(old, state, self.timestamp(), details)
        self._put(instance, old, new)
        return new

    def move_all(self, instances: Iterable[int], cause: Cause, **details: Unpack[Details]) -> None:
        """Take tasks to the state that `cause` leads to. Those that share a runtime share the new one."""
        now = self.timestamp()
        made: dict[int, TaskRuntime] = {}
        for instance in instances:
            old = self.task(instance)
            new = made.get(id(old))
            if new is None:
                state = state_after(self.job_id, instance, old, cause)
                new = made[id(old)] = next_revision(old, state, now, details)
            self._put(instance, old, new)

    def revise(self, instance: int, **details: Unpack[Details]) -> TaskRuntime:
        """Set fields of a task that stays in its state."""
        old = self.task(instance)
        new = next_revision(old, old.state, self.timestamp(), details)
        self._put(instance, old, new)
        return new

    def correct(self, instance: int, **details: Unpack[Details]) -> TaskRuntime:
        """Set fields of a task whose run has ended, from a late status.

        The event of the end, which is the task's last step, gets the new message, reason and termination.
        """
        old = self.task(instance)
        new = self.tasks[instance] = next_revision(old, old.state, old.updated_at, details)
        if new.start_time and not old.start_time:
            self._ran = True
        if not self.set_event_text(instance, new.run, new.state, new.message, new.reason, new.termination):
            self.events.append(pod_event(self.job_id, instance, new))
        return new

    def set_event_text(
        self,
        instance: int,
        run: int,
        state: TaskState,
        message: str,
        reason: str,
        termination: Termination | None = None,
    ) -> bool:
        """Set message, reason and, where given, termination of an event of this cycle.

        Return whether there is one.
        """
        for at in range(len(self.events) - 1, -1, -1):
            event = self.events[at]
            if (event.instance, event.run, event.state) == (instance, run, state):
                how = termination or event.termination
                self.events[at] = replace(event, message=message, reason=reason, termination=how)
                return True
        return False

    def add_usage(self, amounts: dict[str, float]) -> None:
        """Add to the resource usage of the job, by kind."""
        self._tallies.use(amounts)

    def grow(self, spec: JobSpec) -> None:
        """Take a version as the one that the job goes by: the newest, or one that is in use."""
        assert spec.version in self.specs or spec.version > max(self.specs), (
            f"{self.job_id}: version {spec.version} follows {max(self.specs)}, and is none of those in use"
        )
        self.spec = spec
        self.specs = {**self.specs, spec.version: spec}

    @property
    def incomplete(self) -> bool:
        """Whether instances are still to get their first row.

        Once a service has had a workflow, workflows alone add instances.
        """
        if self.workflow is not None:
            return False
        return sum(self.counts.values()) < self.instances

    @property
    def waits(self) -> bool:
        """Whether the job gets no instances, for now or, by its schedule, ever.

        One that is to end gets them as stopped.
        """
        waits = bool(self.unmet) or self.spec.schedule is not None or self.suspended > 0
        return waits and self.goal not in ENDING_JOB_GOALS

    def close(self) -> None:
        """Compute the runtime of the job, if it changes."""
        assert min(self.counts.values(), default=0) >= 0, f"{self.job_id}: less than no tasks: {self.counts}"
        old = self.job.runtime
        spec = self.spec
        state = self._state(old.state)
        if not self.tasks and state is old.state and not self._is_other(old):
            return
        now = self.timestamp()
        # All fields are named: `dataclasses.replace` takes three times as long, and each step is made here.
        self.runtime = JobRuntime(
            state=state,
            goal=self.goal,
            config_version=spec.version,
            creation_time=old.creation_time,
            start_time=old.start_time or (now if self._ran else 0),
            completion_time=(old.completion_time or now) if state.terminal else 0,
            task_counts=self.counts,
            config_counts=total(old.config_counts, self._tallies.versions),
            workflow_version=self._workflow_version,
            state_version=old.state_version,
            desired_state_version=self._desired_state_version,
            update_id=self.workflow.id if self.workflow is not None else old.update_id,
            resource_usage=self._tallies.used(old.resource_usage),
            revision=old.revision + 1,
            updated_at=now,
            goal_by=self.goal_by,
            crash_loop=old.crash_loop,
            gang_restart=old.gang_restart,
            gang_members=old.gang_members,
            released=self.released,
            unmet=self.unmet,
            schedule=self.schedule,
            suspended=self.suspended,
            waits=old.waits,
            follows=old.follows,
        )

    def _state(self, old: JobState) -> JobState:
        if self.service:
            return SERVICE_MACHINE.next(
                old, service_cause(self.counts, self.goal, self.incomplete, self._stopped), self.job_id
            )
        controller = self.task(0).state if self.task_spec(0).controller else None
        cause: JobCause = batch_cause(self.counts, self.instances, self.goal, controller)
        if self.spec.bound_members or self.spec.workload.elastic:
            due = self.in_flight.gang_due
            cause = gang_cause(cause, self.counts, self.goal, due, self._succeeded_without_extras)
        if self.suspended and self._goes_on_after(cause):
            cause = JobCause.CREATING
        return MACHINE.next(old, cause, self.job_id)

    def is_interrupted(self, task: TaskRuntime) -> bool:
        """Whether an instance was stopped before it had succeeded: it runs again when its job is resumed."""
        return task.goal is TaskState.KILLED and task.state is not TaskState.SUCCEEDED

    def _goes_on_after(self, cause: JobCause) -> bool:
        """Whether a suspended job whose tasks have all ended is to run some of them again."""
        ends = cause in (JobCause.SUCCEEDED, JobCause.FAILED, JobCause.KILLED)
        if not ends or self.goal in ENDING_JOB_GOALS:
            return False
        return any(self.is_interrupted(self.task(instance)) for instance in range(self.size))

    def _succeeded_without_extras(self) -> bool:
        """Whether all members that an elastic gang needs have succeeded."""
        needed = range(self.spec.gang_size if self.spec.workload.elastic else 0)
        return bool(needed) and all(self.task(i).state is TaskState.SUCCEEDED for i in needed)

    def _stopped(self) -> bool:
        """Whether a service has all its instances, each was stopped, and no workflow is to start one."""
        there = 0
        for instance in range(self.size):
            task = self.task(instance)
            if task.state in (TaskState.UNKNOWN, TaskState.DELETED):
                continue
            if task.goal is not TaskState.KILLED or task.desired_run > task.run:
                return False
            there += 1
        return there >= max(self.spec.instance_count, 1)

    def _is_other(self, old: JobRuntime) -> bool:
        """Whether something of the job's runtime changes beside its state and what follows from its tasks."""
        return (
            self.goal is not old.goal
            or self.unmet != old.unmet
            or self.schedule != old.schedule
            or self.suspended != old.suspended
            or self.spec is not self.job.spec
            or self._workflow_version != old.workflow_version
            or self._desired_state_version != old.desired_state_version
            or (self.workflow is not None and self.workflow.id != old.update_id)
        )

    def commit(self) -> None:
        """Bring the cache up to the change, which is stored."""
        job = self.job
        # Otherwise it was read again meanwhile: what was decided about the old one is not about this one.
        assert self.in_flight.job is job, f"{self.job_id} is not in memory any more as it was changed"
        assert self.runtime is None or self.runtime.revision == job.runtime.revision + 1, (
            f"{self.job_id}: revision {self.runtime.revision} follows {job.runtime.revision}"
        )
        job.workflow = self.workflow
        for volume in self.volumes.values():
            if volume.goal is VolumeState.DELETED:
                job.volumes.pop(volume.id, None)
            else:
                job.volumes[volume.id] = volume
        another = self.spec is not job.spec
        if another:
            job.grow(self.spec)
        job.extend(self._top)
        tasks, reasons = job.tasks, job.pending_reasons
        for instance, task in self.tasks.items():
            tasks[instance] = task
            if reasons and task.state is not TaskState.PENDING:
                reasons.pop(instance, None)
        job.counts = self.counts
        if self._taken:
            job.free.take(self._taken)
        if self._freed:
            job.free.add(self._freed)
        if self.runtime is not None:
            job.runtime = self.runtime
        versions, desired = self._tallies.versions, self._tallies.desired
        if versions or desired:
            job.desired_versions = total(job.desired_versions, desired)
        if self.service:
            job.note_throttled(self.tasks)
        if len(job.specs) > 1 and (another or self.workflows or versions or desired):
            job.drop_unused_specs()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to store."""
        return not self.tasks and self.runtime is None and not self.workflows and not self.volumes

    def _put(self, instance: int, old: TaskRuntime, new: TaskRuntime) -> None:
        self.tasks[instance] = new
        if old.state is TaskState.DELETED is new.state:
            return
        if TaskState.DELETED in (old.state, new.state):
            self._put_removed(instance, old, new)
            return
        if new.start_time and not old.start_time:
            self._ran = True
        if new.state is not old.state or new.run != old.run or new.health is not old.health:
            self.events.append(pod_event(self.job_id, instance, new))
        self._tallies.follow(old, new)

    def _put_removed(self, instance: int, old: TaskRuntime, new: TaskRuntime) -> None:
        """Count an instance that leaves the job, or comes back."""
        self.events.append(pod_event(self.job_id, instance, new))
        left = new.state is TaskState.DELETED
        self._tallies.count(old if left else new, -1 if left else 1)
        if self.service:
            return
        now, before = (self._freed, self._taken) if left else (self._taken, self._freed)
        if instance in before:
            before.discard(instance)
        else:
            now.add(instance)

"""Jobs in memory: a spec for each version in use, a runtime for each task, shared by equal tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from sys import intern
from typing import NamedTuple

from jobmgr.core.state.free_numbers import FreeNumbers
from jobmgr.core.state.measured import Sample, follow, points_of_runs
from jobmgr.core.state.throttling import is_throttled
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import ON_HOST_TASK_STATES, JobType, TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.model.usage import PEAK_MEMORY, Reading, joined
from peloton.model.volume import Volume, VolumeId
from peloton.model.workflow import Workflow

NOT_CREATED = TaskRuntime(
    state=TaskState.UNKNOWN,
    goal=TaskState.UNKNOWN,
    run=0,
    config_version=0,
    desired_config_version=0,
    desired_run=0,
)
"""Stands for an instance whose row is not stored yet."""


_state = attrgetter("state")
_NOT_THERE = frozenset({TaskState.UNKNOWN, TaskState.DELETED})
"""States of instances without a row, and of those that were removed: their rows keep the number of their last
run."""
_IN_RESMGR = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


class PendingReason(NamedTuple):
    """The state of an enqueued run in resmgr, and why it waits."""

    run: int
    state: TaskState
    """PENDING, READY, PLACING, PLACED, RESERVED or PREEMPTING."""
    reason: str


def is_reached(peer: TaskRuntime) -> bool:
    """Return whether a task has a host, where others reach it."""
    return bool(peer.host) and peer.state in ON_HOST_TASK_STATES


def waits_for(peer: int, other: TaskRuntime | None) -> str:
    """Tell that an instance waits for another one, whose address it needs, to have a host."""
    state = "not created yet" if other is None else other.state.name
    return f"waits until instance {peer}, whose address it needs, has a host: it is {state}"


class CachedJob:
    """A job as it is stored. Readers never change it."""

    __slots__ = (
        "counts",
        "desired_versions",
        "free",
        "job_id",
        "pending_reasons",
        "runtime",
        "samples",
        "spec",
        "specs",
        "tasks",
        "throttled",
        "vain_growths",
        "volumes",
        "workflow",
    )

    def __init__(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, workflow: Workflow | None = None
    ) -> None:
        self.job_id = job_id
        self.workflow = workflow
        """The one that runs, or ran last; None where there was none."""
        self.spec = spec
        """The newest version. It decides about the job as a whole, such as the number of instances; `spec_of`
        about an instance."""
        self.specs: dict[int, JobSpec] = {spec.version: spec}
        """Versions in use: the newest one, and those that instances have or get with their next run."""
        self.runtime = runtime
        self.tasks: list[TaskRuntime] = [NOT_CREATED] * spec.instance_count
        """By instance. Tasks may share a runtime; NOT_CREATED where no row is stored yet."""
        self.counts: dict[TaskState, int] = {}
        """Number of tasks by state; states without tasks are left out."""
        self.desired_versions: dict[int, int] = {}
        """Number of tasks by the version that they get with their next run."""
        self.free = FreeNumbers()
        """Of a batch job: the numbers of instances that were released and have ended."""
        self.pending_reasons: dict[int, PendingReason] = {}
        """Why instances wait in resmgr, as far as it has reported a reason."""
        self.throttled: set[int] = set()
        """Instances of a service that failed and wait before their next run."""
        self.samples: dict[int, Sample] = {}
        """What runs that live have used, by instance, as far as their agents have told."""
        self.volumes: dict[VolumeId, Volume] = {}
        """The volumes of the job that are not deleted."""
        self.vain_growths = 0
        """How often in a row an elastic gang ended a round to grow, and the next one was no larger. It is
        not stored: a new leader begins at 0."""

    @property
    def size(self) -> int:
        """One more than the highest instance that clients may name."""
        return len(self.tasks) if self.spec.type is JobType.DAEMON else self.spec.instance_count

    def task(self, instance: int) -> TaskRuntime | None:
        """Return a runtime; None where there is no such instance, or its row is not stored yet."""
        if not 0 <= instance < len(self.tasks):
            return None
        task = self.tasks[instance]
        return None if task.state in _NOT_THERE else task

    def spec_of(self, instance: int) -> JobSpec:
        """Return the spec of the version that an instance has; the newest where its row is not stored yet."""
        task = self.task(instance)
        return self.spec if task is None else self.specs[task.config_version]

    def task_spec(self, instance: int) -> TaskSpec:
        """Return the instance's part of its spec."""
        return self.spec_of(instance).task(instance)

    def versions(self) -> set[int]:
        """Return the versions in use, by the tasks and by a workflow that runs."""
        kinds = {id(task): task for task in self.tasks if task.state not in _NOT_THERE}.values()
        used = {task.config_version for task in kinds} | {task.desired_config_version for task in kinds}
        return used | {self.spec.version} | self._rolled_versions()

    def _rolled_versions(self) -> set[int]:
        """Return the versions between which a workflow that runs moves the instances."""
        if self.workflow is None or self.workflow.state.terminal:
            return set()
        return {self.workflow.config_version, self.workflow.previous_version} - {0}

    def drop_unused_specs(self) -> None:
        """Drop the specs of versions that are no longer in use, by the counts of the runtime."""
        rolled = self._rolled_versions()
        used = {self.spec.version, *self.runtime.config_counts, *self.desired_versions, *rolled}
        self.specs = {version: spec for version, spec in self.specs.items() if version in used}

    def created(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, TaskRuntime]]:
        """Yield the instances first … end-1 that have a row, with their runtimes, in order."""
        last = len(self.tasks) if end is None else min(end, len(self.tasks))
        for instance in range(first, last):
            task = self.tasks[instance]
            if task.state not in _NOT_THERE:
                yield instance, task

    def reason(self, instance: int) -> str:
        """Return why an instance is in its state: resmgr's reason for a waiting one, else the runtime's."""
        task = self.task(instance)
        if task is None:
            return ""
        if self.spec.has_peers and task.state is TaskState.INITIALIZED and not task.reason:
            return self._peer_reason(instance)
        pending = self.pending_reasons.get(instance)
        return pending.reason if pending is not None and pending.run == task.run else task.reason

    def _peer_reason(self, instance: int) -> str:
        """Return why an instance waits for another one, whose address it needs; empty where it does not."""
        peer = self.task_spec(instance).workload.peer
        if peer is None or peer == instance:
            return ""
        other = self.task(peer)
        return "" if other is not None and is_reached(other) else waits_for(peer, other)

    def set_pending_reason(self, instance: int, run: int, state: TaskState, reason: str) -> None:
        """Note why a run waits in resmgr; an empty reason means that nothing holds it up."""
        task = self.task(instance)
        if task is None or task.run != run or task.state not in _IN_RESMGR:
            return
        if reason:
            # Many runs wait for the same reason: they share one text.
            self.pending_reasons[instance] = PendingReason(run, state, intern(reason))
        else:
            self.pending_reasons.pop(instance, None)

    def take_reading(self, instance: int, run: int, reading: Reading) -> None:
        """Note what an agent tells of a run; of one that has ended or been replaced, nothing."""
        task = self.task(instance)
        if task is not None and task.run == run and task.state in ON_HOST_TASK_STATES:
            before = self.samples.get(instance)
            most = points_of_runs(len(self.samples))
            self.samples[instance] = follow(before, run, task.start_time, reading, most)

    def take_sample(self, instance: int, run: int) -> Sample | None:
        """Return and forget what a run has used that ends; None where nothing was told."""
        sample = self.samples.pop(instance, None)
        return sample if sample is not None and sample.run == run else None

    def put(self, instance: int, task: TaskRuntime) -> None:
        """Replace a task's runtime and update the counts of states."""
        counts = self.counts
        old = self.tasks[instance]
        self.tasks[instance] = task
        before, after = old.state, task.state
        if before is after:
            return
        if before not in _NOT_THERE:
            left = counts[before] - 1
            if left:
                counts[before] = left
            else:
                del counts[before]
        if after not in _NOT_THERE:
            counts[after] = counts.get(after, 0) + 1

    def fill(self, rows: Mapping[int, TaskRuntime]) -> None:
        """Add rows that were read from the store, each once.

        Rows of a batch job beyond the last instance are left out: they are of an update that did not take
        effect. Those of a service are still to be removed.
        """
        assert min(rows, default=0) >= 0, f"{self.job_id}: there is no instance {min(rows)}"
        tasks, size = self.tasks, self.spec.instance_count
        if self.spec.type is not JobType.BATCH:
            self.extend(max(rows, default=0) + 1)
            self.note_throttled(rows)
        elif rows and max(rows) >= size:
            rows = {instance: task for instance, task in rows.items() if instance < size}
        for instance, task in rows.items():
            tasks[instance] = task
        for state, count in Counter(map(_state, rows.values())).items():
            if state is TaskState.DELETED and self.spec.type is JobType.BATCH:
                self.free.add(i for i, task in rows.items() if task.state is TaskState.DELETED)
            if state in _NOT_THERE:
                continue
            self.counts[state] = self.counts.get(state, 0) + count

    def note_throttled(self, tasks: Mapping[int, TaskRuntime]) -> None:
        """Keep `throttled` up to date with instances that changed."""
        for instance, task in tasks.items():
            if is_throttled(task):
                self.throttled.add(instance)
            else:
                self.throttled.discard(instance)

    def add_up(self) -> None:
        """Compute the runtime's sums from the tasks.

        An earlier leader may have stored rows and not the runtime with the new sums.
        """
        versions: dict[int, int] = {}
        desired: dict[int, int] = {}
        used: dict[str, float] = {}
        started = released = 0
        kinds = {id(task): task for task in self.tasks}
        for number, count in Counter(map(id, self.tasks)).items():
            task = kinds[number]
            for kind, amount in task.resource_usage.items():
                more = amount if kind == PEAK_MEMORY else amount * count
                used[kind] = joined(kind, used.get(kind, 0.0), more)
            if task.goal is TaskState.DELETED:
                released += count
            if task.state in _NOT_THERE:
                continue
            versions[task.config_version] = versions.get(task.config_version, 0) + count
            desired[task.desired_config_version] = desired.get(task.desired_config_version, 0) + count
            if task.start_time and (not started or task.start_time < started):
                started = task.start_time
        self.desired_versions = desired
        self.runtime = replace(
            self.runtime,
            start_time=self.runtime.start_time or started,
            task_counts=self.counts,
            config_counts=versions,
            resource_usage=used,
            released=released if self.spec.type is JobType.BATCH else 0,
        )

    def grow(self, spec: JobSpec) -> None:
        """Take the version that the job goes by, which may have more instances."""
        assert spec.version > 0, f"{self.job_id}: version {spec.version} is not stored"
        self.spec = self.specs[spec.version] = spec
        self.extend(spec.instance_count)

    def extend(self, size: int) -> None:
        """Make room for instances up to `size` - 1."""
        self.tasks.extend([NOT_CREATED] * (size - len(self.tasks)))

"""The jobs in memory: a spec for each version of a job in use, a shared or own runtime for each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from sys import intern
from typing import NamedTuple

from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskSpec

UNBORN = TaskRuntime(
    state=TaskState.UNKNOWN,
    goal=TaskState.UNKNOWN,
    run=0,
    config_version=0,
    desired_config_version=0,
    desired_run=0,
)
"""Stands for an instance whose row is not stored yet."""


_state = attrgetter("state")
_IN_RESMGR = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


class Waiting(NamedTuple):
    """Where a run that was enqueued stands in resmgr, and what holds it up."""

    run: int
    state: TaskState
    """PENDING, READY, PLACING, PLACED, RESERVED or PREEMPTING."""
    reason: str


class CachedJob:
    """One job as it is stored. Readers never change it."""

    __slots__ = ("counts", "desired_versions", "job_id", "runtime", "spec", "specs", "tasks", "waiting")

    def __init__(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        self.job_id = job_id
        self.spec = spec
        """The newest version: what holds for the job as a whole, such as how many instances there are. An
        instance goes by `spec_of`."""
        self.specs: dict[int, JobSpec] = {spec.version: spec}
        """The versions in use: the newest one, and those that instances have or get with their next run."""
        self.runtime = runtime
        self.tasks: list[TaskRuntime] = [UNBORN] * spec.instance_count
        """By instance. Tasks in the same state may share one runtime; UNBORN where no row is stored yet."""
        self.counts: dict[TaskState, int] = {}
        """Tasks by state, kept as they change; states without tasks are left out."""
        self.desired_versions: dict[int, int] = {}
        """Tasks by the version that they get with their next run, kept as they change."""
        self.waiting: dict[int, Waiting] = {}
        """Instances that wait in resmgr and of which it has told something."""

    def task(self, instance: int) -> TaskRuntime | None:
        """None where there is no such instance, or its row is not stored yet."""
        if not 0 <= instance < len(self.tasks):
            return None
        task = self.tasks[instance]
        return None if task is UNBORN else task

    def spec_of(self, instance: int) -> JobSpec:
        """Return the spec of the version that an instance has; the newest where its row is not stored yet."""
        task = self.task(instance)
        return self.spec if task is None else self.specs[task.config_version]

    def task_spec(self, instance: int) -> TaskSpec:
        """Return the instance's part of its spec."""
        return self.spec_of(instance).task(instance)

    def versions(self) -> set[int]:
        """Return the versions in use."""
        kinds = {id(task): task for task in self.tasks if task is not UNBORN}.values()
        used = {task.config_version for task in kinds} | {task.desired_config_version for task in kinds}
        return used | {self.spec.version}

    def drop_unused_specs(self) -> None:
        """Drop the specs of versions that are no longer in use. The runtime's counts must be current."""
        used = {self.spec.version, *self.runtime.config_counts, *self.desired_versions}
        self.specs = {version: spec for version, spec in self.specs.items() if version in used}

    def born(self, first: int = 0, end: int | None = None) -> Iterator[tuple[int, TaskRuntime]]:
        """Instances first … end-1 that have a row, with their runtimes, in order."""
        last = len(self.tasks) if end is None else min(end, len(self.tasks))
        for instance in range(first, last):
            task = self.tasks[instance]
            if task is not UNBORN:
                yield instance, task

    def reason(self, instance: int) -> str:
        """Why the instance is where it is: what resmgr says of a waiting one, else the runtime's reason."""
        task = self.task(instance)
        if task is None:
            return ""
        waiting = self.waiting.get(instance)
        return waiting.reason if waiting is not None and waiting.run == task.run else task.reason

    def told(self, instance: int, run: int, state: TaskState, reason: str) -> None:
        """Take what resmgr says of a run that waits; an empty reason: nothing holds it up."""
        task = self.task(instance)
        if task is None or task.run != run or task.state not in _IN_RESMGR:
            return
        if reason:
            # Many wait for the same: one text for all of them.
            self.waiting[instance] = Waiting(run, state, intern(reason))
        else:
            self.waiting.pop(instance, None)

    def put(self, instance: int, task: TaskRuntime) -> None:
        """Replace a task's runtime; the counts follow."""
        counts = self.counts
        old = self.tasks[instance]
        self.tasks[instance] = task
        before, after = old.state, task.state
        if before is after:
            return
        if old is not UNBORN:
            left = counts[before] - 1
            if left:
                counts[before] = left
            else:
                del counts[before]
        counts[after] = counts.get(after, 0) + 1

    def fill(self, rows: Mapping[int, TaskRuntime]) -> None:
        """Take rows as they were read, each once. Those of an update that was cut off before the job took it
        on are left out."""
        tasks, size = self.tasks, self.spec.instance_count
        if rows and max(rows) >= size:
            rows = {instance: task for instance, task in rows.items() if instance < size}
        for instance, task in rows.items():
            tasks[instance] = task
        for state, count in Counter(map(_state, rows.values())).items():
            self.counts[state] = self.counts.get(state, 0) + count

    def add_up(self) -> None:
        """Take the runtime's sums from the tasks: rows may be stored whose leader fell before it had stored
        what they add to the job."""
        versions: dict[int, int] = {}
        desired: dict[int, int] = {}
        used: dict[str, float] = {}
        started = 0
        kinds = {id(task): task for task in self.tasks}
        for number, count in Counter(map(id, self.tasks)).items():
            task = kinds[number]
            if task is UNBORN:
                continue
            versions[task.config_version] = versions.get(task.config_version, 0) + count
            desired[task.desired_config_version] = desired.get(task.desired_config_version, 0) + count
            for kind, amount in task.resource_usage.items():
                used[kind] = used.get(kind, 0.0) + amount * count
            if task.start_time and (not started or task.start_time < started):
                started = task.start_time
        self.desired_versions = desired
        self.runtime = replace(
            self.runtime,
            start_time=self.runtime.start_time or started,
            task_counts=self.counts,
            config_counts=versions,
            resource_usage=used,
        )

    def grow(self, spec: JobSpec) -> None:
        """Take a spec with more instances."""
        self.spec = self.specs[spec.version] = spec
        self.tasks.extend([UNBORN] * (spec.instance_count - len(self.tasks)))

"""What jobmgr holds of its jobs in memory: one spec a job, one shared or own runtime a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from sys import intern
from typing import NamedTuple

from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

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

    __slots__ = ("counts", "job_id", "runtime", "spec", "tasks", "waiting")

    def __init__(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        self.job_id = job_id
        self.spec = spec
        """The newest version. It holds for every instance: an update of a batch job only adds instances."""
        self.runtime = runtime
        self.tasks: list[TaskRuntime] = [UNBORN] * spec.instance_count
        """By instance. Tasks in the same state may share one runtime; UNBORN where no row is stored yet."""
        self.counts: dict[TaskState, int] = {}
        """Tasks by state, kept as they change; states without tasks are left out."""
        self.waiting: dict[int, Waiting] = {}
        """Instances that wait in resmgr and of which it has told something."""

    def task(self, instance: int) -> TaskRuntime | None:
        """None where there is no such instance, or its row is not stored yet."""
        if not 0 <= instance < len(self.tasks):
            return None
        task = self.tasks[instance]
        return None if task is UNBORN else task

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
        used: dict[str, float] = {}
        started = 0
        kinds = {id(task): task for task in self.tasks}
        for number, count in Counter(map(id, self.tasks)).items():
            task = kinds[number]
            if task is UNBORN:
                continue
            versions[task.config_version] = versions.get(task.config_version, 0) + count
            for kind, amount in task.resource_usage.items():
                used[kind] = used.get(kind, 0.0) + amount * count
            if task.start_time and (not started or task.start_time < started):
                started = task.start_time
        self.runtime = replace(
            self.runtime,
            start_time=self.runtime.start_time or started,
            task_counts=self.counts,
            config_counts=versions,
            resource_usage=used,
        )

    def grow(self, spec: JobSpec) -> None:
        """Take a spec with more instances."""
        self.spec = spec
        self.tasks.extend([UNBORN] * (spec.instance_count - len(self.tasks)))


def cached(
    job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
) -> CachedJob:
    """A job as it was read."""
    job = CachedJob(job_id, spec, runtime)
    for page in rows:
        job.fill(page)
    return job

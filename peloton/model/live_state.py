"""The state of a cluster at one moment, as far as scheduling depends on it: simulations go on from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from peloton.model.constraint import Label
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobSpec
from peloton.model.pool import PoolConfig
from peloton.model.resources import MILLI, Resources
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.task import TaskRuntime

_NANOSECONDS = 10**9


@dataclass(frozen=True, slots=True)
class Ran:
    """A job that has ended, and how long it ran."""

    pool_id: PoolId
    owner: str
    name: str
    seconds: float
    size: float = 0.0
    """GPUs that its instances held together, or cores where it had none."""
    began: float = 0.0
    """When its first run started, in seconds since 1970; 0: not known."""


@dataclass(frozen=True, slots=True)
class LiveHost:
    """A host that takes tasks."""

    hostname: str
    resources: Resources
    """All that it has."""
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A job that has not ended."""

    job_id: JobId
    spec: JobSpec
    created: int
    """When it was created, in nanoseconds since 1970."""
    tasks: Mapping[int, TaskRuntime]
    """By instance, ended ones included; those that are missing are still to be created."""
    seconds: tuple[float, ...] = ()
    """How long instances ran that have succeeded."""

    @property
    def size(self) -> float:
        """GPUs that its instances hold together, or cores where it has none."""
        needs = self.spec.default.resources
        return (needs.gpu or needs.cpu) * max(1, self.spec.instance_count) / MILLI

    def age(self, now: int) -> float | None:
        """Return for how many seconds its oldest run runs; None where none does."""
        began = [
            task.start_time
            for task in self.tasks.values()
            if task.state is TaskState.RUNNING and task.start_time
        ]
        return max(0, now - min(began)) / _NANOSECONDS if began else None

    def waiting(self) -> list[int]:
        """Return the instances that are still to start."""
        return [
            instance
            for instance in range(self.spec.instance_count)
            if (task := self.tasks.get(instance)) is None
            or not (task.state.terminal or task.goal is TaskState.KILLED or task.state in ON_HOST_TASK_STATES)
        ]


@dataclass(frozen=True, slots=True)
class LiveState:
    """A cluster at one moment."""

    now: int
    """Nanoseconds since 1970."""
    hosts: tuple[LiveHost, ...]
    pools: tuple[PoolConfig, ...]
    jobs: tuple[LiveJob, ...]
    ended: tuple[Ran, ...] = ()
    """Jobs that have ended lately, in any order."""

    def job(self, job_id: JobId) -> LiveJob | None:
        """Return a job; None where it is not among the live ones."""
        return next((job for job in self.jobs if job.job_id == job_id), None)


def seconds_of_runs(tasks: Iterable[TaskRuntime]) -> Iterator[float]:
    """Yield how long the runs took that have succeeded."""
    for task in tasks:
        if task.state is TaskState.SUCCEEDED and task.start_time and task.completion_time:
            yield max(0, task.completion_time - task.start_time) / _NANOSECONDS

"""The store in memory: jobs and tasks, with the terms of leaders. It outlives all processes.

A write is applied as a whole at one moment, after a check of the writer's term. Its outcome may stay unknown
to the writer: then the write was applied or not, and it raises Unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from jobmgr.core.state.change import Change
from peloton.errors import AlreadyExists, Fenced, NotFound, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.pool import PoolConfig
from peloton.model.task import TaskRuntime
from peloton.model.workflow import Workflow, WorkflowId
from simulator.world.kernel import Kernel, Life


@dataclass(slots=True)
class StoredJob:
    """A job as it is stored."""

    specs: dict[int, JobSpec]
    runtime: JobRuntime
    tasks: dict[int, TaskRuntime] = field(default_factory=dict)
    workflow: Workflow | None = None
    workflows: dict[WorkflowId, Workflow] = field(default_factory=dict)
    """All that it has had."""


class StoreFates(Protocol):
    """What becomes of writes and reads."""

    def write(self) -> tuple[bool, bool]:
        """Return whether a write is applied, and whether the writer learns of its outcome."""
        ...

    def seconds(self) -> float:
        """Return how long a call takes."""
        ...


class Reliable:
    """Every write is applied and answered."""

    def __init__(self, seconds: float = 0.002) -> None:
        self._seconds = seconds

    def write(self) -> tuple[bool, bool]:
        """Apply, and answer."""
        return True, True

    def seconds(self) -> float:
        """Return the same time for each call."""
        return self._seconds


class Store:
    """The tables, and how calls reach them."""

    def __init__(self, kernel: Kernel, fates: StoreFates | None = None) -> None:
        self._kernel = kernel
        self._fates = fates or Reliable()
        self.reliable = fates is None
        """Whether every write is applied and answered, so that both are one event."""
        self.jobs: dict[JobId, StoredJob] = {}
        self.active: dict[JobId, None] = {}
        self.pools: dict[str, PoolConfig] = {}
        self.terms: dict[str, int] = {}
        """The newest term of each role that writes."""
        self.on_write: Callable[[JobId, StoredJob, Change], None] | None = None
        """Called with each job and the change of it that is about to be applied."""
        self.on_create: Callable[[JobId, JobSpec], None] | None = None
        """Called with each job that is about to be created."""
        self.on_delete: Callable[[JobId, StoredJob], None] | None = None
        """Called with each job that is deleted, as it was."""
        self.fencing = True
        """Whether writes of older terms are refused."""

    # Calls of processes, whose outcome may stay unknown.

    def submit(
        self, life: Life, role: str, term: int, write: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """Have a write applied in a term of a role; `done` gets its result, or a PelotonError."""
        if self.reliable:
            self._kernel.after(self._fates.seconds(), life, self._apply_and_tell, role, term, write, done)
            return
        self._kernel.after(self._fates.seconds(), _STORE, self._apply, life, role, term, write, done)

    def _apply_and_tell(
        self, role: str, term: int, write: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        try:
            self._check(role, term)
            answer = write()
        except PelotonError as error:
            answer = error
        done(answer)

    def _apply(
        self, life: Life, role: str, term: int, write: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        applied, told = self._fates.write()
        answer: Any = Unavailable("the store gives no answer")
        if applied:
            try:
                self._check(role, term)
                result = write()
            except PelotonError as error:
                result = error
            if told:
                answer = result
        self._kernel.after(0.0, life, done, answer)

    def read(self, life: Life, read: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Have something read."""
        self._kernel.after(self._fates.seconds(), life, lambda: done(_read(read)))

    def _check(self, role: str, term: int) -> None:
        newest = self.terms.get(role, 0)
        if self.fencing and term < newest:
            raise Fenced(f"term {term} of {role} is over, the newest is {newest}")

    # What is done in the store's own moment.

    def begin_term(self, role: str, term: int) -> None:
        """Refuse writes of earlier terms of a role from now on."""
        self._check(role, term)
        self.terms[role] = max(term, self.terms.get(role, 0))

    def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, workflow: Workflow | None) -> None:
        """Store a new job. Raises AlreadyExists."""
        if job_id in self.jobs:
            raise AlreadyExists(f"job {job_id} exists")
        if self.on_create is not None:
            self.on_create(job_id, spec)
        self.jobs[job_id] = StoredJob({spec.version: spec}, runtime, {}, workflow)
        self.active[job_id] = None

    def change_pools(self, configs: Iterable[PoolConfig]) -> None:
        """Store pools that are newer than what is stored."""
        for pool in configs:
            if pool.version > self.pools[pool.id].version:
                self.pools[pool.id] = pool

    def add_version(self, job_id: JobId, spec: JobSpec) -> JobSpec:
        """Store a config of a job as its next version, and return it so. Raises NotFound."""
        job = self.jobs.get(job_id)
        if job is None:
            raise NotFound(f"job {job_id} is not stored")
        spec = replace(spec, version=max(job.specs) + 1)
        job.specs[spec.version] = spec
        return spec

    def write_all(self, change: Change) -> None:
        """Write what a cycle decided about a job. Raises NotFound."""
        job = self.jobs.get(change.job_id)
        if job is None:
            raise NotFound(f"job {change.job_id} is not stored")
        if self.on_write is not None:
            self.on_write(change.job_id, job, change)
        job.tasks.update(change.tasks)
        if change.runtime is not None:
            job.runtime = change.runtime
        for workflow in change.workflows.values():
            job.workflow = workflow
        job.workflows.update(change.workflows)

    def retire(self, job_ids: Iterable[JobId]) -> None:
        """Take finished jobs out of the active set."""
        for job_id in job_ids:
            self.active.pop(job_id, None)

    def delete(self, job_id: JobId) -> None:
        """Delete a job, if it is stored."""
        job = self.jobs.pop(job_id, None)
        self.active.pop(job_id, None)
        if job is not None and self.on_delete is not None:
            self.on_delete(job_id, job)

    def task(self, job_id: JobId, instance: int) -> TaskRuntime:
        """Return a stored task. Raises NotFound."""
        job = self.jobs.get(job_id)
        if job is None or instance not in job.tasks:
            raise NotFound(f"{job_id}-{instance} is not stored")
        return job.tasks[instance]

    def active_jobs(self) -> Mapping[JobId, StoredJob]:
        """Return the active jobs."""
        return {job_id: self.jobs[job_id] for job_id in self.active if job_id in self.jobs}


_STORE = Life("store/one")


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except PelotonError as error:
        return error

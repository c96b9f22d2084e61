"""A job as a call reads it: from memory while it is active, from the store when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.engine import Engine
from jobmgr.services.common.crash_loops import explained
from jobmgr.services.common.reasons import reason_of
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, NotFound, PelotonError
from peloton.model.ids import JobId, is_uuid
from peloton.model.job import MAX_INSTANCES, JobRuntime, JobSpec, JobSummary, instance_count
from peloton.model.payload import Payload
from peloton.model.states import JobType, TaskState
from peloton.model.task import TaskRuntime
from peloton.wire.overrides import task_config
from peloton.wire.payload import job_config
from peloton.wire.task import write_runtime
from storage.interface import Store

JOB_NOT_FOUND = "job not found"
YIELD_EVERY = 1000
"""Tasks after which the event loop may do other work."""


class TerminatedJob(InvalidArgument):
    """A call for instances of a batch job that has ended; the message is the one that clients know."""

    def __str__(self) -> str:
        """Return the message."""
        return "cannot start tasks in a terminated job"


class InternalRefusal(PelotonError):
    """A refusal that the v0 API answers as INTERNAL, with its text alone."""


@dataclass(frozen=True, slots=True)
class JobView:
    """The newest spec and the runtime of a job, and its tasks."""

    job_id: JobId
    spec: JobSpec
    runtime: JobRuntime
    store: Store
    cached: CachedJob | None
    """None for a job that has ended."""
    _configs: dict[int, job_pb2.JobConfig] = field(default_factory=dict)
    """Configs that were parsed, by version."""

    @property
    def size(self) -> int:
        """One more than the highest instance that may be named."""
        if self.spec.type is JobType.DAEMON:
            return MAX_INSTANCES if self.cached is None else self.cached.size
        return self.spec.instance_count

    @property
    def instance_count(self) -> int:
        """Number of instances: of a daemon job as many as there are now, of others those not released."""
        return instance_count(self.spec, self.runtime)

    def is_released(self, instance: int) -> bool:
        """Return whether an instance of an active batch job is released, ended or not."""
        tasks = [] if self.cached is None else self.cached.tasks
        return 0 <= instance < len(tasks) and tasks[instance].goal is TaskState.DELETED

    async def removed_run(self, instance: int) -> int:
        """Return the last run of an instance that has left the job; 0 for any other."""
        if self.cached is not None:
            tasks = self.cached.tasks
            task = tasks[instance] if 0 <= instance < len(tasks) else None
        else:
            task = await self._stored(instance)
        return task.run if task is not None and task.state is TaskState.DELETED else 0

    async def _stored(self, instance: int) -> TaskRuntime | None:
        try:
            return await self.store.tasks.get(self.job_id, instance)
        except NotFound:
            return None

    @property
    def config(self) -> job_pb2.JobConfig:
        """Return the newest config as it was given. Shared between calls: not to be changed."""
        return parsed(self.spec.payload)

    async def config_of(self, task: TaskRuntime | None) -> job_pb2.JobConfig:
        """Return the config of the version that a run has; the newest where there is no row yet.

        Shared between calls: not to be changed.
        """
        version = self.spec.version if task is None else task.config_version
        config = self._configs.get(version)
        if config is None:
            config = self._configs[version] = parsed((await self.version(version)).payload)
        return config

    async def version(self, version: int) -> JobSpec:
        """Return a version, from the store where it is in use no longer. Raises NotFound."""
        if version == self.spec.version:
            return self.spec
        held = None if self.cached is None else self.cached.specs.get(version)
        return held or await self.store.jobs.config(self.job_id, version)

    async def task(self, instance: int) -> TaskRuntime | None:
        """Return the runtime of an instance; None where it has no row yet, or has left the job."""
        if self.cached is not None:
            task = self.cached.task(instance)
            return None if task is None else replace(task, reason=reason_of(self.cached, instance))
        task = await self._stored(instance)
        return None if task is None or task.state is TaskState.DELETED else task

    async def tasks(self, first: int = 0, end: int | None = None) -> AsyncIterator[tuple[int, TaskRuntime]]:
        """Yield the instances first … end-1 that have a row, in order, with the reason why they wait."""
        async for instance, task in self._rows(first, end):
            if instance % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            yield instance, task

    async def _rows(self, first: int, end: int | None) -> AsyncIterator[tuple[int, TaskRuntime]]:
        if self.cached is None:
            async for page in self.store.tasks.list(self.job_id, first, end):
                for row in _there(page):
                    yield row
            return
        for instance, task in self.cached.created(first, end):
            yield instance, self.explained(instance, task)

    async def batches(self) -> AsyncIterator[Sequence[tuple[int, TaskRuntime]]]:
        """Yield all instances that have a row, in order, as many at a time as may hold up other work.

        Of those that wait, `explained` tells why.
        """
        if self.cached is None:
            async for page in self.store.tasks.list(self.job_id, 0, None):
                yield list(_there(page))
            return
        held = self.cached.created()
        while batch := list(islice(held, YIELD_EVERY)):
            yield batch
            await asyncio.sleep(0)

    def explained(self, instance: int, task: TaskRuntime) -> TaskRuntime:
        """Return a runtime with the reason why it waits."""
        reason = self.reason(instance, task)
        return task if reason == task.reason else replace(task, reason=reason)

    def reason(self, instance: int, task: TaskRuntime) -> str:
        """Return why an instance is in its state."""
        return task.reason if self.cached is None else reason_of(self.cached, instance)

    async def info(self, instance: int, runtime: TaskRuntime | None) -> task_pb2.TaskInfo:
        """Return a task with its merged config."""
        info = task_pb2.TaskInfo()
        await self.fill(info, instance, runtime)
        return info

    async def fill(self, info: task_pb2.TaskInfo, instance: int, runtime: TaskRuntime | None) -> None:
        """Write a task with its merged config into an empty message."""
        info.instanceId = instance
        info.jobId.value = self.job_id
        info.config.CopyFrom(task_config(await self.config_of(runtime), instance))
        if runtime is not None:
            write_runtime(info.runtime, self.job_id, instance, runtime)


def _there(page: Mapping[int, TaskRuntime]) -> Iterable[tuple[int, TaskRuntime]]:
    """Return the rows of a page without those of instances that have left the job."""
    return (row for row in page.items() if row[1].state is not TaskState.DELETED)


async def view(engine: Engine, job_id: JobId) -> JobView:
    """Return the view of a job. Raises NotFound, also for a text that is not a job id."""
    if not is_uuid(job_id):
        raise NotFound(JOB_NOT_FOUND)
    cached = engine.job(job_id)
    if cached is not None:
        return JobView(job_id, cached.spec, explained(cached, engine.limits), engine.store, cached)
    summary = await engine.summary(job_id)
    return JobView(job_id, summary.spec, summary.runtime, engine.store, None)


async def in_memory(engine: Engine, jobs: Sequence[JobSummary]) -> list[JobSummary]:
    """Return jobs, the active ones with the runtimes in the memory of their owners, newer than the index."""
    others = [
        job.job_id for job in jobs if not engine.shards.holds(job.job_id) and not job.runtime.state.terminal
    ]
    told = await engine.elsewhere.runtimes(others) if others else {}
    return [
        replace(job, runtime=told[job.job_id]) if job.job_id in told else _as_cached(engine, job)
        for job in jobs
    ]


def _as_cached(engine: Engine, job: JobSummary) -> JobSummary:
    cached = engine.job(job.job_id)
    return job if cached is None else replace(job, runtime=explained(cached, engine.limits))


@lru_cache(maxsize=32)
def parsed(payload: Payload) -> job_pb2.JobConfig:
    """Return a parsed config. Shared between calls: not to be changed."""
    return job_config(payload)

"""Finished jobs: a few stay in memory, for those who look at what has just ended."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import pod_event
from jobmgr.core.task.late_updates import details, usage_of
from jobmgr.core.task.usage import added
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.recovery import read_job
from peloton.errors import NotFound
from peloton.model.ids import JobId, Run
from peloton.model.task import TaskStatus

MOST_TASKS = 200_000
MOST_JOBS = 500
log = logging.getLogger(__name__)


class Archive:
    """A finished job changes no more, but for what is told late of its runs' ends: what was read of one holds
    until it is deleted."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._held: OrderedDict[JobId, CachedJob] = OrderedDict()
        self._tasks = 0
        self._deleting: Counter[JobId] = Counter()
        self._filled = asyncio.Condition()
        self._filling: Counter[JobId] = Counter()
        lanes.on_end(self.keep)

    def held(self, job_id: JobId) -> CachedJob | None:
        return self._held.get(job_id)

    def keep(self, job: CachedJob) -> None:
        self.drop(job.job_id)
        job.waiting.clear()
        self._held[job.job_id] = job
        self._tasks += len(job.tasks)
        while len(self._held) > MOST_JOBS or (self._tasks > MOST_TASKS and len(self._held) > 1):
            self._tasks -= len(self._held.popitem(last=False)[1].tasks)

    def drop(self, job_id: JobId) -> None:
        job = self._held.pop(job_id, None)
        if job is not None:
            self._tasks -= len(job.tasks)

    async def load(self, job_id: JobId) -> CachedJob:
        """Raises NotFound."""
        job = self._held.get(job_id)
        if job is None:
            job = await read_job(self._lanes.store, job_id)
            if job.runtime.state.terminal:
                self.keep(job)
        return job

    async def delete(self, job_id: JobId) -> None:
        self._deleting[job_id] += 1
        try:
            async with self._filled:
                await self._filled.wait_for(lambda: not self._filling[job_id])
            self.drop(job_id)
            await self._lanes.store.jobs.delete(job_id)
            self.drop(job_id)
        finally:
            self._deleting[job_id] -= 1
            if not self._deleting[job_id]:
                del self._deleting[job_id]

    async def fill_in(self, told: Iterable[tuple[Run, TaskStatus]]) -> None:
        """Take what agents tell late of runs' ends. Raises Unavailable: the same may be told again."""
        for run, status in told:
            if run.job_id in self._deleting:
                continue
            self._filling[run.job_id] += 1
            try:
                await self._fill_in(run, status)
            except NotFound:
                log.debug("%s is told of, and is not stored", run)
            finally:
                self._filling[run.job_id] -= 1
                if not self._filling[run.job_id]:
                    del self._filling[run.job_id]
                async with self._filled:
                    self._filled.notify_all()

    async def _fill_in(self, run: Run, status: TaskStatus) -> None:
        store, held = self._lanes.store, self._held.get(run.job_id)
        runtime = held.runtime if held else await store.jobs.runtime(run.job_id)
        task = held.task(run.instance) if held else await store.tasks.get(run.job_id, run.instance)
        changes = details(task, run.run, status) if task and runtime.state.terminal else {}
        if task is None or not changes:
            return
        version = task.config_version
        spec = held.specs[version] if held else await store.jobs.config(run.job_id, version)
        more = usage_of(task, changes, spec.task(run.instance).resources)
        usage = added(task.resource_usage, more)
        task = replace(task, **changes, resource_usage=usage, revision=task.revision + 1)
        runtime = replace(
            runtime, resource_usage=added(runtime.resource_usage, more), revision=runtime.revision + 1
        )
        event = pod_event(run.job_id, run.instance, task)
        await store.write_all(run.job_id, {run.instance: task}, [event], runtime)
        if held is not None:
            held.put(run.instance, task)
            held.runtime = runtime

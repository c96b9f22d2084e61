"""Jobs that have ended. The latest ones stay in memory."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.revisions import pod_event
from jobmgr.core.task.late_updates import corrections, held_by
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.recovery import read_job
from peloton.errors import Fenced, NotFound
from peloton.model.ids import JobId, Run
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import TaskStatus
from peloton.model.usage import join

MAX_TASKS = 200_000
MAX_JOBS = 500
log = logging.getLogger(__name__)


class FinishedJobs:
    """A bounded cache of finished jobs.

    A finished job changes only by late updates of the ends of its runs, and by its deletion.
    """

    def __init__(
        self,
        lanes: Lanes,
        on_end: Callable[[CachedJob], None] = lambda job: None,
        on_correction: Callable[[JobId, JobSpec, JobRuntime], None] = lambda job_id, spec, runtime: None,
    ) -> None:
        """Call `on_end` with each job that has ended, `on_correction` with one that a late update changes."""
        self._lanes = lanes
        self._on_end = on_end
        self._on_correction = on_correction
        self._held: OrderedDict[JobId, CachedJob] = OrderedDict()
        self._tasks = 0
        self._deleting: Counter[JobId] = Counter()
        self._updated = asyncio.Condition()
        self._updating: Counter[JobId] = Counter()
        lanes.on_end(self._take)

    def get(self, job_id: JobId) -> CachedJob | None:
        """Return a job that is in memory."""
        return self._held.get(job_id)

    def _take(self, job: CachedJob) -> None:
        self._on_end(job)
        self.add(job)

    def add(self, job: CachedJob) -> None:
        """Add a job that has ended; the oldest ones make room for it."""
        self.remove(job.job_id)
        job.pending_reasons.clear()
        self._held[job.job_id] = job
        self._tasks += len(job.tasks)
        while len(self._held) > MAX_JOBS or (self._tasks > MAX_TASKS and len(self._held) > 1):
            self._tasks -= len(self._held.popitem(last=False)[1].tasks)

    def remove(self, job_id: JobId) -> None:
        """Remove a job from memory."""
        job = self._held.pop(job_id, None)
        if job is not None:
            self._tasks -= len(job.tasks)

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Remove jobs that another instance may change from now on."""
        for job_id in [job_id for job_id in self._held if dropped(job_id)]:
            self.remove(job_id)

    async def load(self, job_id: JobId) -> CachedJob:
        """Return a job with all its tasks, from the store where it is not in memory. Raises NotFound."""
        job = self._held.get(job_id)
        if job is None:
            job = await read_job(self._lanes.store, job_id)
            if job.runtime.state.terminal:
                self.add(job)
        return job

    async def delete(self, job_id: JobId) -> None:
        """Delete a job from the store, after the late updates that are being applied to it."""
        self._deleting[job_id] += 1
        try:
            async with self._updated:
                await self._updated.wait_for(lambda: not self._updating[job_id])
            self.remove(job_id)
            await self._lanes.store.jobs.delete(job_id)
            self.remove(job_id)
        finally:
            self._deleting[job_id] -= 1
            if not self._deleting[job_id]:
                del self._deleting[job_id]

    async def apply_late_updates(self, statuses: Iterable[tuple[Run, TaskStatus]]) -> None:
        """Correct the ends of runs. Raises Unavailable; the call can then be repeated."""
        for run, status in statuses:
            if run.job_id in self._deleting or not self._lanes.shards.holds(run.job_id):
                continue
            self._updating[run.job_id] += 1
            try:
                await self._apply(run, status)
            except NotFound:
                log.debug("late update of %s, which is not stored", run)
            except Fenced:
                if self._lanes.shards.holds(run.job_id):
                    raise
            finally:
                self._updating[run.job_id] -= 1
                if not self._updating[run.job_id]:
                    del self._updating[run.job_id]
                async with self._updated:
                    self._updated.notify_all()

    async def _apply(self, run: Run, status: TaskStatus) -> None:
        store, held = self._lanes.store, self._held.get(run.job_id)
        runtime = held.runtime if held else await store.jobs.runtime(run.job_id)
        task = held.task(run.instance) if held else await store.tasks.get(run.job_id, run.instance)
        changes = corrections(task, run.run, status) if task and runtime.state.terminal else {}
        if task is None or not changes:
            return
        version = task.config_version
        spec = held.specs[version] if held else await store.jobs.config(run.job_id, version)
        more = held_by(task, changes, spec.task(run.instance).resources)
        usage = join(task.resource_usage, more)
        task = replace(task, **changes, resource_usage=usage, revision=task.revision + 1)
        runtime = replace(
            runtime, resource_usage=join(runtime.resource_usage, more), revision=runtime.revision + 1
        )
        event = pod_event(run.job_id, run.instance, task)
        await store.write_all(run.job_id, {run.instance: task}, [event], runtime)
        if more:
            self._on_correction(run.job_id, spec, runtime)
        if held is not None:
            held.put(run.instance, task)
            held.runtime = runtime

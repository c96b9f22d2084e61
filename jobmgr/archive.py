"""Finished jobs: a few stay in memory, for those who look at what has just ended."""

from __future__ import annotations

from collections import OrderedDict

from jobmgr.core.cache import CachedJob, cached
from jobmgr.recovery import read_job
from jobmgr.turns import Turns
from peloton.model.ids import JobId

MOST_TASKS = 200_000
MOST_JOBS = 500


class Archive:
    """A finished job never changes, so what was read of one holds until it is deleted."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._held: OrderedDict[JobId, CachedJob] = OrderedDict()
        self._tasks = 0
        turns.on_end = self.keep

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
            job = cached(job_id, *await read_job(self._turns.store, job_id))
            if job.runtime.state.terminal:
                self.keep(job)
        return job

    async def delete(self, job_id: JobId) -> None:
        self.drop(job_id)
        await self._turns.store.jobs.delete(job_id)
        self.drop(job_id)

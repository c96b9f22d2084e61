"""Reading jobs from the store: at the start of a term, and of finished ones when somebody asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from prometheus_client import Gauge

from jobmgr.turns import ACTIVE_JOBS, Turns
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import TaskRuntime
from storage.interface import Store

JOBS_AT_ONCE = 16
"""Read together: a job takes a few round trips to the store."""
TELL_SECONDS = 5.0
ACTIVE = Gauge("jobmgr_recovery_jobs", "Active jobs that were stored when this instance was last elected.")
READ = Gauge("jobmgr_recovery_jobs_read", "How many of them it has read: all before it serves.")
TASKS = Gauge("jobmgr_recovery_tasks_read", "Tasks of the jobs that it has read.")
SECONDS = Gauge("jobmgr_recovery_seconds", "How long it has been reading them, or how long that took.")
log = logging.getLogger(__name__)

Pages = list[Mapping[int, TaskRuntime]]
Stored = tuple[JobSpec, JobRuntime, Pages]


async def read_job(store: Store, job_id: JobId) -> Stored:
    """A job with its current config and all its tasks. Raises NotFound."""
    return await _rest(store, job_id, await store.jobs.runtime(job_id))


async def recover(store: Store, turns: Turns, tell: float = TELL_SECONDS) -> int:
    """Rebuild the cache from the active jobs; how many there are. The log hears of it each `tell` seconds.

    A job that is active but no longer stored was being deleted: it is let go of. What is otherwise missing or
    unreadable raises, and leadership is given up.
    """
    jobs = await store.jobs.active()
    progress = _Progress(len(jobs), tell)
    for at in range(0, len(jobs), JOBS_AT_ONCE):
        some = jobs[at : at + JOBS_AT_ONCE]
        read = await asyncio.gather(*(_read_active(store, job_id, progress.tasks) for job_id in some))
        for job_id, stored in zip(some, read, strict=True):
            if stored is not None:
                turns.core.active.recover(job_id, *stored)
            progress.job(stored is not None)
            await asyncio.sleep(0)
    log.info("%s", str(progress))
    ACTIVE_JOBS.set(progress.found)
    return progress.found


async def _read_active(store: Store, job_id: JobId, seen: Callable[[int], None]) -> Stored | None:
    """None for one that was being deleted."""
    try:
        runtime = await store.jobs.runtime(job_id)
    except NotFound:
        log.warning("job %s is active but not stored: retired", job_id)
        await store.jobs.retire(job_id)
        return None
    return await _rest(store, job_id, runtime, seen)


async def _rest(
    store: Store, job_id: JobId, runtime: JobRuntime, seen: Callable[[int], None] = lambda tasks: None
) -> Stored:
    """`seen` is told of so many tasks."""
    spec = await store.jobs.config(job_id, runtime.config_version)
    pages: Pages = []
    async for page in store.tasks.list(job_id):
        pages.append(page)
        seen(len(page))
    return spec, runtime, pages


class _Progress:
    """Told in the metrics at each step, and in the log from time to time."""

    def __init__(self, jobs: int, tell: float) -> None:
        self.found = 0
        self._jobs = jobs
        self._tell = tell
        self._read = self._tasks = 0
        self._now = asyncio.get_running_loop().time
        self._began = self._told = self._now()
        ACTIVE.set(jobs)
        self._measure()

    def job(self, found: bool) -> None:
        """One more is taken in, or let go of."""
        self._read += 1
        self.found += found
        self._measure()

    def tasks(self, number: int) -> None:
        """So many more are read."""
        self._tasks += number
        self._measure()

    def _measure(self) -> None:
        READ.set(self._read)
        TASKS.set(self._tasks)
        SECONDS.set(self._now() - self._began)
        if self._now() - self._told >= self._tell:
            self._told = self._now()
            log.info("%s", str(self))

    def __str__(self) -> str:
        seconds = self._now() - self._began
        return f"{self._read} of {self._jobs} active jobs are read, {self._tasks} tasks, in {seconds:.1f} s"

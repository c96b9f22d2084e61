"""Reading jobs from the store: at the start of a term, and of finished ones when somebody asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from jobmgr.turns import ACTIVE_JOBS, Turns
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import TaskRuntime
from peloton.progress import TELL_SECONDS, Gauges, Progress
from storage.interface import Store

JOBS_AT_ONCE = 16
"""Read together: a job takes a few round trips to the store."""
GAUGES = Gauges("jobmgr")
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
    progress = Progress(GAUGES, log, asyncio.get_running_loop().time, len(jobs), tell)
    found = 0
    for at in range(0, len(jobs), JOBS_AT_ONCE):
        some = jobs[at : at + JOBS_AT_ONCE]
        read = await asyncio.gather(*(_read_active(store, job_id, progress.tasks) for job_id in some))
        for job_id, stored in zip(some, read, strict=True):
            if stored is not None:
                turns.core.active.recover(job_id, *stored)
                found += 1
            progress.job()
            await asyncio.sleep(0)
    progress.done()
    ACTIVE_JOBS.set(found)
    return found


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

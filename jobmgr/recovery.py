"""Reading jobs from the store: at the start of a term, and of finished ones when somebody asks."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from jobmgr.turns import Turns
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.task import TaskRuntime
from storage.interface import Store

log = logging.getLogger(__name__)

Pages = list[Mapping[int, TaskRuntime]]


async def read_job(store: Store, job_id: JobId) -> tuple[JobSpec, JobRuntime, Pages]:
    """A job with its current config and all its tasks. Raises NotFound."""
    runtime = await store.jobs.runtime(job_id)
    spec = await store.jobs.config(job_id, runtime.config_version)
    pages = [page async for page in store.tasks.list(job_id)]
    return spec, runtime, pages


async def recover(store: Store, turns: Turns) -> int:
    """Rebuild the cache from the active jobs; how many there are.

    A job that is active but no longer stored was being deleted: it is let go of. What is otherwise missing or
    unreadable raises, and leadership is given up.
    """
    found = 0
    for job_id in await store.jobs.active():
        try:
            spec, runtime, pages = await read_job(store, job_id)
        except NotFound:
            log.warning("job %s is active but not stored: retired", job_id)
            await store.jobs.retire(job_id)
            continue
        turns.core.active.recover(job_id, spec, runtime, pages)
        found += 1
    return found

"""What a follower has read of the active jobs when its term begins.

Only what cannot change is kept: a version of a job's config is written once. A job may be deleted and another
one be created under its id, so what was read counts for a job of the same creation time only. Runtimes and
tasks are read when the term begins, since the leader before it wrote them until its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NoReturn

from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from storage.interface import Store

FIRST_LOOK = 5.0
"""Seconds after the start before a follower reads ahead: one that leads at once does not need it."""
SECONDS = 30.0
"""Time between two looks for jobs that are new."""
JOBS_PER_LOOK = 1000
"""Most jobs that are read at a time: the next look goes on."""
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    created: int
    specs: dict[int, JobSpec] = field(default_factory=dict)


class ReadAhead:
    """Configs of active jobs, by version. They outlast the terms of this process."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Known] = {}

    async def config(self, store: Store, job_id: JobId, runtime: JobRuntime, version: int) -> JobSpec:
        """Return a version of a job's config, from the store where it is not known. Raises NotFound."""
        known = self._jobs.get(job_id)
        if known is not None and known.created == runtime.creation_time and version in known.specs:
            return known.specs[version]
        return await store.jobs.config(job_id, version)

    async def look(self, store: Store) -> int:
        """Read the present configs of new jobs, and forget those that ended; return how many are new.

        Raises what the store raises.
        """
        active = await store.jobs.active()
        for job_id in self._jobs.keys() - set(active):
            del self._jobs[job_id]
        new = [job_id for job_id in active if job_id not in self._jobs][:JOBS_PER_LOOK]
        for job_id in new:
            try:
                runtime = await store.jobs.runtime(job_id)
                spec = await store.jobs.config(job_id, runtime.config_version)
            except NotFound:  # it was deleted meanwhile
                continue
            self._jobs[job_id] = _Known(runtime.creation_time, {spec.version: spec})
        return len(new)

    async def follow(
        self, open_store: Callable[[], Awaitable[Store]], leads: Callable[[], bool], after: float = FIRST_LOOK
    ) -> NoReturn:
        """Open a store after `after` seconds, and look again and again; run for ever."""
        await asyncio.sleep(after)
        store = await _opened(open_store)
        try:
            await self.run(store, leads)
        finally:
            await store.close()

    async def run(self, store: Store, leads: Callable[[], bool], every: float = SECONDS) -> NoReturn:
        """Look again and again while this instance does not lead; run for ever."""
        while True:
            try:
                if not leads():
                    await self.look(store)
            except TRANSIENT as error:
                log.info("nothing is read ahead: %s", error)
            await asyncio.sleep(every)


async def _opened(open_store: Callable[[], Awaitable[Store]]) -> Store:
    """Open a store, and try again until it can be opened."""
    delays = backoff()
    while True:
        try:
            return await open_store()
        except TRANSIENT as error:
            log.info("nothing is read ahead: %s", error)
        await delays.wait()

"""Reads jobs from the store: the active ones when a term begins, finished ones on request.

A shard begins with the list of its active jobs. Their tasks are read in the background, those of a requested
job first. Until all are read no statuses and no placements of the shard are taken: they may be of any of its
jobs. Shards that begin together are read together, as all of them are where an engine has all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from prometheus_client import Gauge

from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.read_ahead import ReadAhead
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.daemon.progress import TELL_SECONDS, Gauges, Progress
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.shard import shard_of
from peloton.model.volume import VolumeState
from storage.interface import Store

JOBS_AT_ONCE = 8
"""Jobs that are read concurrently."""
GAUGES = Gauges("jobmgr")
SETTLED = Gauge(
    "jobmgr_recovery_settled",
    "1 where all active jobs are in memory, evaluated, and compared with what resmgr holds; else 0.",
)
log = logging.getLogger(__name__)

VERSIONS_AT_ONCE = 16
"""Versions of a config that are read concurrently."""


async def read_job(store: Store, job_id: JobId) -> CachedJob:
    """Read a job with all its tasks and the versions of its config that they use. Raises NotFound."""
    return await _read_rest(store, ReadAhead(), job_id, await store.jobs.runtime(job_id), lambda tasks: None)


async def _read_rest(
    store: Store, ahead: ReadAhead, job_id: JobId, runtime: JobRuntime, on_page: Callable[[int], None]
) -> CachedJob:
    """Read what belongs to a runtime. `on_page` is called with the number of tasks of each page."""
    workflow = await store.workflows.get(runtime.update_id) if runtime.update_id else None
    spec = await ahead.config(store, job_id, runtime, runtime.config_version)
    job = CachedJob(job_id, spec, runtime, workflow)
    async for page in store.tasks.list(job_id):
        job.fill(page)
        on_page(len(page))
    missing = sorted(job.versions() - job.specs.keys())
    for at in range(0, len(missing), VERSIONS_AT_ONCE):
        some = missing[at : at + VERSIONS_AT_ONCE]
        specs = await asyncio.gather(*(ahead.config(store, job_id, runtime, version) for version in some))
        job.specs.update(zip(some, specs, strict=True))
    if any(spec.stateful for spec in job.specs.values()):
        volumes = await store.volumes.of_job(job_id)
        job.volumes = {each.id: each for each in volumes if each.goal is not VolumeState.DELETED}
    return job


async def recover(store: Store, lanes: Lanes, log_interval: float = TELL_SECONDS) -> int:
    """Read all active jobs; return their number. The progress is logged each `log_interval` seconds.

    Raises as `Recovery.read_all`.
    """
    recovery = Recovery(store, lanes, log_interval)
    await recovery.begin()
    return await recovery.read_all()


class Recovery:
    """Reads the active jobs into the lanes."""

    def __init__(
        self,
        store: Store,
        lanes: Lanes,
        log_interval: float = TELL_SECONDS,
        ahead: ReadAhead | None = None,
    ) -> None:
        """Log the progress each `log_interval` seconds. `ahead` has what was read before the term."""
        self._store = store
        self._ahead = ahead or ReadAhead()
        self._lanes = lanes
        self._log_interval = log_interval
        self._progress: Progress | None = None
        self._reading: dict[JobId, asyncio.Task[None]] = {}
        self._found = 0
        self._done = asyncio.Event()
        SETTLED.set_function(lambda: float(self.settled))

    def add(self, shard: int, active: Iterable[JobId]) -> None:
        """Hold a shard, whose active jobs are these: calls can be answered, and the jobs are to be read."""
        self._lanes.shards.begin(shard)
        self._lanes.unread.update(dict.fromkeys(active))

    @property
    def settled(self) -> bool:
        """Whether all jobs are read, evaluated and compared with what resmgr holds."""
        return self._done.is_set() and not self._lanes.shards.reading and self._lanes.settled

    async def begin(self) -> None:
        """Read the list of active jobs of an engine that has all shards; then calls can be answered."""
        self._lanes.unread.update(dict.fromkeys(await self._store.jobs.active()))

    async def run(self) -> None:
        """Read the jobs of all shards that begin, in the background; run for ever. Raises as `read_all`."""
        try:
            while True:
                await self.read_all()
                await self._lanes.shards.some_reading()
        finally:
            for reading in self._reading.values():
                reading.cancel()

    async def run_after(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run an action once all active jobs of the first shards are in memory."""
        await self._done.wait()
        await action()

    async def read_all(self) -> int:
        """Read the jobs that are not in memory yet, and open their shards; return how many were found in all.

        A job that is active and not stored was being deleted: it is retired. Anything else that is missing or
        cannot be read raises, and leadership is given up.
        """
        shards = self._lanes.shards
        reading, unread = shards.reading, list(self._lanes.unread)
        self._progress = Progress(
            GAUGES, log, asyncio.get_running_loop().time, len(unread), self._log_interval
        )
        jobs = iter(unread)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(JOBS_AT_ONCE):
                    group.create_task(self._read_each(jobs))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        self._progress.done()
        shards.opened(reading)
        self._done.set()
        return self._found

    async def read(self, job_id: JobId) -> None:
        """Read a job that is active and not in memory yet. Raises what the store raises."""
        if job_id not in self._lanes.unread:
            return
        reading = self._reading.get(job_id)
        if reading is None:
            reading = self._reading[job_id] = asyncio.create_task(self._read(job_id))
            reading.add_done_callback(lambda _: self._reading.pop(job_id))
        await asyncio.shield(reading)

    async def _read_each(self, jobs: Iterator[JobId]) -> None:
        for job_id in jobs:
            delays = backoff()
            while True:
                try:
                    await self.read(job_id)
                    break
                except TRANSIENT as error:
                    if not self._lanes.shards.holds(job_id):
                        break
                    log.warning("cannot read job %s, will try again: %s", job_id, error)
                await delays.wait()

    async def _read(self, job_id: JobId) -> None:
        shards, shard = self._lanes.shards, shard_of(job_id)
        opening = shards.opening(shard)
        job = await self._stored(job_id)
        if shards.opening(shard) != opening:
            return  # it was dropped meanwhile, and what was read may be old
        self._lanes.unread.pop(job_id, None)
        if job is not None:
            self._lanes.recover(job)
            self._found += 1
        if self._progress is not None:
            self._progress.job()

    async def _stored(self, job_id: JobId) -> CachedJob | None:
        """Read a job; return None for one that was being deleted."""
        try:
            runtime = await self._store.jobs.runtime(job_id)
        except NotFound:
            log.warning("job %s is active but not stored: retired", job_id)
            await self._store.jobs.retire(job_id)
            return None
        return await _read_rest(self._store, self._ahead, job_id, runtime, self._note_tasks)

    def _note_tasks(self, tasks: int) -> None:
        if self._progress is not None:
            self._progress.tasks(tasks)

"""Archiving of jobs: write all that the store has of a job, make that durable, then have jobmgr delete it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass

from prometheus_client import Counter

from archiver.jobs import EndedJobs
from archiver.records import Block
from archiver.sink import Sink, Writer
from peloton.clock import Clock
from peloton.errors import Conflict, NotFound, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.states import JobType
from storage.interface import Store

ARCHIVED = Counter("archiver_jobs_archived_total", "Jobs that were written to the archive and deleted.")
FAILED = Counter("archiver_failures_total", "Jobs that could not be archived; they are tried again.")
INSTANCES_AT_ONCE = 32
"""Instances whose events are read at a time."""
ALL_RUNS = 2**31 - 1
BUFFER_BYTES = 1 << 20
"""Bytes that are collected before they are written."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one look for old jobs came to."""

    archived: int = 0
    failed: int = 0


class Archiver:
    """Archive batch jobs that have ended before a given age.

    At no moment does a job exist neither in the store nor, complete and durable, in the archive. A process
    that dies in between leaves a block without an end, or a job that is archived again by the next one.
    """

    def __init__(
        self, store: Store, jobs: EndedJobs, sink: Sink, clock: Clock, age: int, fence: Callable[[], None]
    ) -> None:
        """`age` is in nanoseconds; `fence` raises where this process may not act."""
        self._store = store
        self._jobs = jobs
        self._sink = sink
        self._clock = clock
        self._age = age
        self._fence = fence

    async def run_once(self) -> Cycle:
        """Archive all jobs that are old enough now. Raises PelotonError where they cannot be listed."""
        before = self._clock.wall() - self._age
        archived = failed = 0
        async for job_id in self._jobs.ended(before):
            self._fence()
            try:
                archived += await self.archive(job_id, before)
            except NotFound as error:  # deleted by somebody else meanwhile
                log.info("job %s is not archived: %s", job_id, error)
            except (PelotonError, OSError) as error:
                failed += 1
                FAILED.inc()
                log.warning("job %s is not archived, and tried again: %s", job_id, error)
        return Cycle(archived, failed)

    async def archive(self, job_id: JobId, before: int) -> bool:
        """Archive a job and delete it; return whether it was one that ended before `before`.

        Raises PelotonError and OSError; the job is then still in the store, or its deletion unknown.
        """
        runtime = await self._store.jobs.runtime(job_id)
        spec = await self._store.jobs.config(job_id, runtime.config_version)
        if spec.type is not JobType.BATCH or not ended_before(runtime, before):
            return False
        with ExitStack() as stack:
            writer = await asyncio.to_thread(stack.enter_context, self._sink.open())
            await self._write(writer, job_id, runtime)
            await asyncio.to_thread(writer.sync)
        self._fence()
        await self._jobs.delete(job_id)
        ARCHIVED.inc()
        log.info("job %s (%s) is archived", job_id, spec.name)
        return True

    async def _write(self, writer: Writer, job_id: JobId, runtime: JobRuntime) -> None:
        pending: list[bytes] = []
        size = 0
        async for line in self._lines(job_id, runtime):
            pending.append(line)
            size += len(line)
            if size >= BUFFER_BYTES:
                await asyncio.to_thread(writer.write, b"".join(pending))
                pending, size = [], 0
        await asyncio.to_thread(writer.write, b"".join(pending))

    async def _lines(self, job_id: JobId, runtime: JobRuntime) -> AsyncIterator[bytes]:
        block = Block(job_id)
        yield block.job(runtime, self._clock.wall())
        for version in range(1, runtime.config_version + 1):
            try:
                spec = await self._store.jobs.config(job_id, version)
            except NotFound:
                if version == runtime.config_version:
                    raise
                continue
            yield await asyncio.to_thread(block.config, spec)
        async for page in self._store.tasks.list(job_id):
            for line in await asyncio.to_thread(list, block.tasks(page)):
                yield line
            instances = list(page)
            for start in range(0, len(instances), INSTANCES_AT_ONCE):
                some = instances[start : start + INSTANCES_AT_ONCE]
                listed = (self._store.pod_events.list(job_id, i, runs=ALL_RUNS) for i in some)
                for instance, events in zip(some, await asyncio.gather(*listed), strict=True):
                    if events:
                        yield block.events(instance, events)
        if (now := await self._store.jobs.runtime(job_id)).revision != runtime.revision:
            raise Conflict(
                f"it was changed while it was read: revision {now.revision}, not {runtime.revision}"
            )
        yield block.end()


def ended_before(runtime: JobRuntime, before: int) -> bool:
    """Return whether a job has ended, and before a time."""
    return runtime.state.terminal and 0 < runtime.completion_time <= before


async def keep_archiving(archiver: Archiver, interval: float) -> None:
    """Archive every `interval` seconds, until cancelled."""
    while True:
        try:
            cycle = await archiver.run_once()
        except Refused:
            raise
        except PelotonError as error:
            log.warning("cannot look for old jobs: %s", error)
        else:
            if cycle != Cycle():
                log.info("%d jobs archived, %d failed", cycle.archived, cycle.failed)
        await asyncio.sleep(interval)

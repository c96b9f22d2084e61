"""The job index, over which queries run.

Cassandra has no index that finds by parts of names, keywords and labels, sorts by any property and counts the
results. So queries run over a copy of the jobs in SQLite, with the tables and statements of `storage.sqlite`
(`storage.jobindex.index_db`).

Only a handle with a term changes jobs. A leader's reads all jobs once, when its term begins, and then applies
its own changes: a query costs one read of the term and the time of SQLite. After a change with an unknown
outcome, the job is read again before the next query. A handle without a leader's current term copies all jobs
for each query, which takes some 10 s for 100,000 jobs. So does one with shards: others change jobs, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from peloton.errors import Fenced, NotFound, PelotonError
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobPage, JobQuery
from storage.cassandra.configs import Configs
from storage.cassandra.ranges import token_ranges
from storage.cassandra.session import Row, Session
from storage.cassandra.terms import Terms
from storage.jobindex.index_db import Change, IndexDatabase

log = logging.getLogger(__name__)
T = TypeVar("T")


_RANGES = 16
_JOBS_AT_ONCE = 200
"""Rows in a page, which a server sends at once: at most 25 MiB."""
_CHANGES_AT_ONCE = 2000
"""Changes that may wait before they are applied; a query applies them before that."""


class JobIndex:
    """Answer queries, within calls of the port."""

    def __init__(self, session: Session, configs: Configs, terms: Terms) -> None:
        self._session = session
        self._configs = configs
        self._terms = terms
        self._database: IndexDatabase | None = None
        self._changes: dict[JobId, Change] = {}
        self._unconfirmed: dict[JobId, object] = {}
        """Each with a marker of the change that made it unconfirmed."""
        self._following = False
        self._lock = asyncio.Lock()
        self._preloading: asyncio.Task[None] | None = None

    async def query(self, query: JobQuery) -> JobPage:
        """Answer a query."""
        return await self._read_from(lambda database: database.find(query))

    async def lost_seconds(self) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs have lost since checkpoints, by pool."""
        return await self._read_from(lambda database: database.lost_seconds())

    async def _read_from(self, read: Callable[[IndexDatabase], Awaitable[T]]) -> T:
        async with self._lock:
            if await self._leading():
                return await read(await self._current())
            await self._drop()
        database = IndexDatabase()
        try:
            await self._fill(database)
            return await read(database)
        finally:
            await database.close()

    def note(self, job_id: JobId, change: Change) -> None:
        """Record a change that was made."""
        if self._following:
            held = self._changes.get(job_id)
            if change.runtime is not None and change.config is None and held is not None:
                change = replace(change, config=held.config)
            self._changes[job_id] = change

    def mark_unconfirmed(self, job_id: JobId) -> None:
        """Record that a change may have been made."""
        if self._following:
            self._unconfirmed[job_id] = object()

    async def reset(self) -> None:
        """Forget the index, so that changes by others are seen."""
        if self._preloading is not None:
            self._preloading.cancel()
            await asyncio.wait([self._preloading])
            self._preloading = None
        async with self._lock:
            await self._drop()

    def preload(self, then: Callable[[], Awaitable[None]]) -> None:
        """Read the jobs in the background, so that the first query finds them read; then call `then`."""
        self._preloading = asyncio.get_running_loop().create_task(self._preload(then), name="job-index")

    async def _preload(self, then: Callable[[], Awaitable[None]]) -> None:
        begin = time.monotonic()
        try:
            async with self._lock:
                await self._current()
        except PelotonError as error:
            log.warning("job index not read, the next query tries again: %s", error)
        else:
            log.info("job index read in %.1f s", time.monotonic() - begin)
        await then()

    async def _leading(self) -> bool:
        if not self._terms.leads:
            return False
        try:
            await self._terms.check()
        except Fenced:
            return False
        return True

    async def _current(self) -> IndexDatabase:
        """Return the index database with all changes in it."""
        if self._database is None:
            self._following = True  # before the jobs are read, so that no change falls in between
            database = IndexDatabase()
            try:
                await self._fill(database)
            except BaseException:
                self._stop_following()
                await database.close()
                raise
            self._database = database
        for job_id, marker in tuple(self._unconfirmed.items()):
            await self._look_up(job_id, marker)
        await self._flush(self._database)
        return self._database

    async def _look_up(self, job_id: JobId, marker: object) -> None:
        """Read a job of unknown state. If it changes meanwhile, the next query reads it again."""
        before = self._changes.get(job_id)
        try:
            found = await self._read(job_id)
        except NotFound:  # its config, deleted after its row was read
            return
        if self._unconfirmed.get(job_id) is marker and self._changes.get(job_id) is before:
            del self._unconfirmed[job_id]
            self.note(job_id, found)

    async def _flush(self, database: IndexDatabase) -> None:
        assert self._lock.locked(), "changes are applied in their order"
        changes, self._changes = self._changes, {}
        if not changes:
            return
        try:
            await database.apply(list(changes.items()))
        except PelotonError:  # some changes may have been applied
            await self._drop()
            raise

    async def flush_many(self) -> None:
        """Apply changes if many wait. Called after each change, to keep them bounded."""
        if len(self._changes) > _CHANGES_AT_ONCE and self._database is not None and not self._lock.locked():
            async with self._lock:
                if self._database is not None:
                    await self._flush(self._database)

    async def _drop(self) -> None:
        self._stop_following()
        if self._database is not None:
            database, self._database = self._database, None
            await database.close()

    def _stop_following(self) -> None:
        self._following = False
        self._changes = {}
        self._unconfirmed = {}

    async def _read(self, job_id: JobId) -> Change:
        row = await self._session.row("read_job", job_id, serial=True)
        if row is None or row[0] is None:
            return Change(None)
        return Change(row[5], await self._configs.indexed(job_id, row[4]))

    async def _fill(self, database: IndexDatabase) -> None:
        await database.prepare()
        slots = asyncio.Semaphore(2)

        async def one(low: int, high: int) -> None:
            async with slots:
                async for page in self._session.pages("scan_jobs", low, high, size=_JOBS_AT_ONCE):
                    await database.insert([change async for change in self._changes_of(page)])

        await asyncio.gather(*(one(low, high) for low, high in token_ranges(_RANGES)))

    async def _changes_of(self, page: Sequence[Row]) -> AsyncIterator[tuple[JobId, Change]]:
        """Yield the changes of rows of scan_jobs, without versions that are not the current one."""
        for job_id, version, current, runtime, *texts in page:
            if runtime is not None and version == current:
                try:
                    config = await self._configs.indexed_from(version, tuple(texts))
                except NotFound:  # a large config, deleted meanwhile
                    continue
                yield job_id, Change(runtime, config)

"""The job index, over which queries run.

Cassandra has no index that finds by parts of names, keywords and labels, sorts by any property and counts the
results. So queries run over a copy of the jobs in SQLite, with the tables and statements of `storage.sqlite`
(`storage.jobindex.index_db`).

Only a handle with a term changes jobs. A leader's reads all jobs once, when its term begins, and then applies
its own changes: a query costs one read of the term and the time of SQLite. After a change with an unknown
outcome, the job is read again before the next query. A handle without a leader's current term copies all jobs
for each query, which takes some 10 s for 100,000 jobs. So does one with shards, as others change jobs, too:
it has an index of its own jobs (`storage.cassandra.owned_index`), whose findings those who share merge.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from peloton.errors import Fenced, PelotonError
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobPage, JobQuery
from storage.cassandra.index_changes import IndexChanges
from storage.cassandra.index_rows import IndexRows
from storage.cassandra.terms import Terms
from storage.jobindex.index_db import Change, IndexDatabase

log = logging.getLogger(__name__)
T = TypeVar("T")


class JobIndex:
    """Answer queries, within calls of the port."""

    def __init__(self, rows: IndexRows, terms: Terms) -> None:
        self._rows = rows
        self._terms = terms
        self._database: IndexDatabase | None = None
        self._changes = IndexChanges(rows)
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
            self._changes.note(job_id, change)

    def mark_unconfirmed(self, job_id: JobId) -> None:
        """Record that a change may have been made."""
        if self._following:
            self._changes.mark_unconfirmed(job_id)

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
        await self._changes.confirm()
        await self._flush(self._database)
        return self._database

    async def _flush(self, database: IndexDatabase) -> None:
        assert self._lock.locked(), "changes are applied in their order"
        changes = self._changes.take()
        if not changes:
            return
        try:
            await database.apply(changes)
        except PelotonError:  # some changes may have been applied
            await self._drop()
            raise

    async def flush_many(self) -> None:
        """Apply changes if many wait. Called after each change, to keep them bounded."""
        if self._changes.many and self._database is not None and not self._lock.locked():
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
        self._changes.forget()

    async def _fill(self, database: IndexDatabase) -> None:
        await database.prepare()
        await self._rows.fill(database)

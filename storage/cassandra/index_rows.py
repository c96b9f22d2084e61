"""Reading of jobs from Cassandra into an index database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.shard import shard_of
from storage.cassandra.configs import Configs
from storage.cassandra.ranges import token_ranges
from storage.cassandra.session import Row, Session
from storage.jobindex.index_db import Change, IndexDatabase

_RANGES = 16
_JOBS_AT_ONCE = 200
"""Rows in a page, which a server sends at once: at most 25 MiB."""


class IndexRows:
    """The jobs as they are stored, in the form of the job index."""

    def __init__(self, session: Session, configs: Configs) -> None:
        self._session = session
        self._configs = configs

    async def read(self, job_id: JobId) -> Change:
        """Return a job. Raises NotFound where it is deleted meanwhile."""
        row = await self._session.row("read_job", job_id, serial=True)
        if row is None or row[0] is None:
            return Change(None)
        return Change(row[5], await self._configs.indexed(job_id, row[4]))

    async def fill(self, database: IndexDatabase, shards: Collection[int] | None = None) -> None:
        """Insert all jobs, or those of some shards. Some may be there already: they are replaced."""
        slots = asyncio.Semaphore(2)

        async def one(low: int, high: int) -> None:
            async with slots:
                async for page in self._session.pages("scan_jobs", low, high, size=_JOBS_AT_ONCE):
                    await database.insert([change async for change in self._changes_of(page, shards)])

        await asyncio.gather(*(one(low, high) for low, high in token_ranges(_RANGES)))

    async def _changes_of(
        self, page: Sequence[Row], shards: Collection[int] | None
    ) -> AsyncIterator[tuple[JobId, Change]]:
        """Yield the changes of rows of scan_jobs, without versions that are not the current one."""
        for job_id, version, current, runtime, *texts in page:
            if runtime is not None and version == current and (shards is None or shard_of(job_id) in shards):
                try:
                    config = await self._configs.indexed_from(version, tuple(texts))
                except NotFound:  # a large config, deleted meanwhile
                    continue
                yield job_id, Change(runtime, config)

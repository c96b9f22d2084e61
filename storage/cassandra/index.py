"""The job index: what queries are answered from.

No index of Cassandra's finds by parts of names, by keywords and labels, sorts by any property and counts what
it found. So queries run over a copy of the jobs in SQLite, with the tables and the statements of
`storage.sqlite` (`storage.jobindex.index_db`).

A handle with a term is the only one that changes jobs. It reads all jobs once, when its term begins, and from
then on follows its own changes: a query costs one read of the term, and the time that SQLite takes. A change
whose outcome is unknown is read again before the next query. A handle without a term, or whose term is over,
copies all jobs for each query: right, but some 10 s for 100,000 jobs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

from peloton.errors import Fenced, NotFound, PelotonError
from peloton.model.ids import JobId
from peloton.model.job import JobPage, JobQuery
from storage.cassandra.configs import Configs
from storage.cassandra.ranges import token_ranges
from storage.cassandra.session import Row, Session
from storage.cassandra.terms import Terms
from storage.jobindex.index_db import Change, Copy

log = logging.getLogger(__name__)


_RANGES = 16
_JOBS_AT_ONCE = 200
"""Rows in a page: a server answers with all of it at once, 25 MiB of rows as large as may be."""
_CHANGES_AT_ONCE = 2000
"""Changes held back until they go into the copy, where no query asks for them before."""


class JobIndex:
    """Answers queries, within the port's calls."""

    def __init__(self, session: Session, configs: Configs, terms: Terms) -> None:
        self._session = session
        self._configs = configs
        self._terms = terms
        self._copy: Copy | None = None
        self._changes: dict[JobId, Change] = {}
        self._doubtful: dict[JobId, object] = {}
        """Each with what tells one doubt from the next."""
        self._following = False
        self._turn = asyncio.Lock()
        self._warming: asyncio.Task[None] | None = None

    async def query(self, query: JobQuery) -> JobPage:
        async with self._turn:
            if await self._leading():
                return await (await self._current()).find(query)
            await self._let_go()
        copy = Copy()
        try:
            await self._fill(copy)
            return await copy.find(query)
        finally:
            await copy.close()

    def note(self, job_id: JobId, change: Change) -> None:
        """Of a change that was made."""
        if self._following:
            held = self._changes.get(job_id)
            if change.runtime is not None and change.config is None and held is not None:
                change = replace(change, config=held.config)
            self._changes[job_id] = change

    def doubt(self, job_id: JobId) -> None:
        """Of a change that may have been made."""
        if self._following:
            self._doubtful[job_id] = object()

    async def reset(self) -> None:
        """What others changed is to be seen from now on."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
            self._warming = None
        async with self._turn:
            await self._let_go()

    def warm(self, then: Callable[[], Awaitable[None]]) -> None:
        """Read the jobs in the background, so that the first query finds them read; then do what is given."""
        self._warming = asyncio.get_running_loop().create_task(self._warm(then), name="job-index")

    async def _warm(self, then: Callable[[], Awaitable[None]]) -> None:
        begin = time.monotonic()
        try:
            async with self._turn:
                await self._current()
        except PelotonError as error:
            log.warning("job index not read, the next query tries again: %s", error)
        else:
            log.info("job index read in %.1f s", time.monotonic() - begin)
        await then()

    async def _leading(self) -> bool:
        if not self._terms.held:
            return False
        try:
            await self._terms.check()
        except Fenced:
            return False
        return True

    async def _current(self) -> Copy:
        """The copy with all changes in it."""
        if self._copy is None:
            self._following = True  # before the jobs are read, so that no change falls in between
            copy = Copy()
            try:
                await self._fill(copy)
            except BaseException:
                self._stop_following()
                await copy.close()
                raise
            self._copy = copy
        for job_id, doubt in tuple(self._doubtful.items()):
            await self._look_up(job_id, doubt)
        await self._flush(self._copy)
        return self._copy

    async def _look_up(self, job_id: JobId, doubt: object) -> None:
        """Where the job is changed meanwhile, the next query looks again."""
        before = self._changes.get(job_id)
        try:
            found = await self._read(job_id)
        except NotFound:  # its config, deleted after its row was read
            return
        if self._doubtful.get(job_id) is doubt and self._changes.get(job_id) is before:
            del self._doubtful[job_id]
            self.note(job_id, found)

    async def _flush(self, copy: Copy) -> None:
        changes, self._changes = self._changes, {}
        if not changes:
            return
        try:
            await copy.apply(list(changes.items()))
        except PelotonError:  # it has some of them and not the others
            await self._let_go()
            raise

    async def flush_many(self) -> None:
        """Keeps the changes that wait bounded; called after each."""
        if len(self._changes) > _CHANGES_AT_ONCE and self._copy is not None and not self._turn.locked():
            async with self._turn:
                if self._copy is not None:
                    await self._flush(self._copy)

    async def _let_go(self) -> None:
        self._stop_following()
        if self._copy is not None:
            copy, self._copy = self._copy, None
            await copy.close()

    def _stop_following(self) -> None:
        self._following = False
        self._changes = {}
        self._doubtful = {}

    async def _read(self, job_id: JobId) -> Change:
        row = await self._session.row("read_job", job_id, serial=True)
        if row is None or row[0] is None:
            return Change(None)
        return Change(row[5], await self._configs.indexed(job_id, row[4]))

    async def _fill(self, copy: Copy) -> None:
        await copy.prepare()
        turns = asyncio.Semaphore(2)

        async def one(low: int, high: int) -> None:
            async with turns:
                async for page in self._session.pages("scan_jobs", low, high, size=_JOBS_AT_ONCE):
                    await copy.insert([change async for change in self._changes_of(page)])

        await asyncio.gather(*(one(low, high) for low, high in token_ranges(_RANGES)))

    async def _changes_of(self, page: Sequence[Row]) -> AsyncIterator[tuple[JobId, Change]]:
        """Of rows of scan_jobs; those of other versions than the job's own are left out."""
        for job_id, version, current, runtime, *texts in page:
            if runtime is not None and version == current:
                try:
                    config = await self._configs.indexed_from(version, tuple(texts))
                except NotFound:  # a large config, deleted meanwhile
                    continue
                yield job_id, Change(runtime, config)

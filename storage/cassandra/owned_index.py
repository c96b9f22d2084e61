"""The job index of a handle that has shards: of the jobs of these alone, which only it changes.

When shards begin, their jobs are read in the background, all shards that wait together; the index follows
the handle's changes from before that. Until they are read, they are left out of what is found. The terms are
read for each query: a shard that has a newer one is left out, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence

from peloton.backoff import Backoff
from peloton.errors import PelotonError
from peloton.model.ids import JobId
from peloton.model.job import JobKeys, JobLosses, JobQuery, JobSummary
from peloton.model.shard import shard_of
from storage.cassandra.index_changes import IndexChanges
from storage.cassandra.index_rows import IndexRows
from storage.jobindex.index_db import Change, IndexDatabase

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds after jobs could not be read."""
log = logging.getLogger(__name__)


class OwnedIndex:
    """Answer for the shards that have begun."""

    def __init__(self, rows: IndexRows, owned: Callable[[], Awaitable[Collection[int]]]) -> None:
        """`owned` returns the shards whose terms are not over, as they are after the call."""
        self._rows = rows
        self._owned = owned
        self._changes = IndexChanges(rows)
        self._database: IndexDatabase | None = None
        self._indexed: set[int] = set()
        """The shards whose jobs are read."""
        self._awaited: dict[int, object] = {}
        """Shards whose jobs are to be read, each with a marker of its beginning."""
        self._gone: set[int] = set()
        """Shards of which the database has jobs that count no more."""
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    # --- shards ---

    def begin(self, shards: Collection[int]) -> None:
        """Follow the changes of shards from now on, and read their jobs."""
        self.end(shards)
        self._awaited.update((shard, object()) for shard in shards)
        self._read_on()

    def end(self, shards: Collection[int]) -> None:
        """Follow shards no more."""
        for shard in shards:
            self._awaited.pop(shard, None)
        self._gone |= self._indexed & set(shards)
        self._indexed -= set(shards)
        self._changes.forget(lambda job_id: shard_of(job_id) in shards)

    async def close(self) -> None:
        """Forget all."""
        self._awaited, self._indexed = {}, set()
        self._changes.forget()
        await self._stop_reading()
        async with self._lock:
            await self._drop()

    # --- changes ---

    def note(self, job_id: JobId, change: Change) -> None:
        """Record a change that was made."""
        if self._follows(job_id):
            self._changes.note(job_id, change)

    def mark_unconfirmed(self, job_id: JobId) -> None:
        """Record that a change may have been made."""
        if self._follows(job_id):
            self._changes.mark_unconfirmed(job_id)

    async def flush_many(self) -> None:
        """Apply changes if many wait, unless they are being applied."""
        if (
            self._changes.many
            and not self._awaited
            and self._database is not None
            and not self._lock.locked()
        ):
            async with self._lock:
                await self._flush()

    def _follows(self, job_id: JobId) -> bool:
        shard = shard_of(job_id)
        return shard in self._indexed or shard in self._awaited

    # --- what is asked ---

    async def find_keys(self, query: JobQuery) -> JobKeys:
        """Return the keys of jobs of the shards whose jobs are read."""
        owned = await self._owned()
        async with self._lock:
            shards = await self._counted(owned)
            if self._database is None or not shards:
                return JobKeys(frozenset(), (), 0)
            keys, total = await self._database.find_keys(query, shards if self._has_others(shards) else None)
            return JobKeys(shards, keys, total)

    async def losses(self) -> JobLosses:
        """Return what jobs of the shards whose jobs are read have lost."""
        owned = await self._owned()
        async with self._lock:
            shards = await self._counted(owned)
            if self._database is None or not shards:
                return JobLosses(frozenset(), {})
            seconds = await self._database.lost_seconds(shards if self._has_others(shards) else None)
            return JobLosses(shards, seconds)

    async def _counted(self, owned: Collection[int]) -> frozenset[int]:
        """Apply what waits; return the shards of which all jobs are in the database."""
        await self._changes.confirm()
        await self._flush()
        return frozenset(self._indexed.intersection(owned))

    def _has_others(self, shards: Collection[int]) -> bool:
        """Return whether the database may have jobs of other shards."""
        return self._reads() or bool(self._gone) or shards != self._indexed

    async def summaries(self, job_ids: Collection[JobId]) -> Sequence[JobSummary]:
        """Return those of some jobs that are read."""
        async with self._lock:
            await self._flush()
            if self._database is None:
                return ()
            mine = [job_id for job_id in job_ids if shard_of(job_id) in self._indexed]
            return await self._database.summaries(mine)

    async def _flush(self) -> None:
        """Apply the changes of jobs that are read. Those of others wait: what is read then is older."""
        assert self._lock.locked(), "changes are applied in their order"
        if self._database is None:
            return
        try:
            if self._gone and not self._reads():
                gone, self._gone = self._gone, set()
                await self._database.drop_shards(gone)
            changes = self._changes.take(lambda job_id: shard_of(job_id) in self._indexed)
            if changes:
                await self._database.apply(changes)
        except PelotonError:  # part of it may be done
            await self._stop_reading()
            await self._drop()
            raise
        finally:
            self._read_on()

    # --- reading ---

    def _reads(self) -> bool:
        return self._reading is not None and not self._reading.done()

    def _read_on(self) -> None:
        if self._awaited and not self._reads():
            self._reading = asyncio.create_task(self._read_awaited(), name="job index of shards")

    async def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            self._reading = None

    async def _read_awaited(self) -> None:
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while self._awaited:
            began, beginnings = time.monotonic(), dict(self._awaited)
            try:
                await self._read(beginnings)
                log.info("jobs of %d shards indexed in %.1f s", len(beginnings), time.monotonic() - began)
            except PelotonError as error:
                log.warning("jobs of %d shards not indexed yet: %s", len(beginnings), error)
                async with self._lock:
                    await self._drop()
                await pauses.wait()

    async def _read(self, beginnings: dict[int, object]) -> None:
        """Read the jobs of shards. One that has ended meanwhile, or begun anew, does not count."""
        async with self._lock:
            database = await self._prepared()
            gone, self._gone = self._gone | beginnings.keys(), set()
            await database.drop_shards(gone)
        await self._rows.fill(database, beginnings.keys())
        for shard, beginning in beginnings.items():
            if self._awaited.get(shard) is beginning:
                del self._awaited[shard]
                self._indexed.add(shard)
            else:
                self._gone.add(shard)

    async def _prepared(self) -> IndexDatabase:
        if self._database is None:
            database = IndexDatabase()
            await database.prepare()
            self._database = database
        return self._database

    async def _drop(self) -> None:
        """Forget the database; all shards are to be read again. Nothing is being read into it."""
        self._awaited.update((shard, object()) for shard in self._indexed)
        self._indexed, self._gone = set(), set()
        database, self._database = self._database, None
        if database is not None:
            await database.close()

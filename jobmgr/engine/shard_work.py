"""What an engine does for the shards that its process owns: the port `shard_owner.ShardWork`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import Phase
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.errors import Fenced
from peloton.membership.interface import Role
from peloton.model.ids import JobId
from peloton.model.shard import shard_of
from storage.interface import Store

log = logging.getLogger(__name__)


class StoredTerms:
    """Begins terms of shards in the store, all those together that are to begin at one moment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[int, int] = {}
        self._beginning: asyncio.Task[Sequence[JobId]] | None = None

    async def begin(self, shard: int, term: int) -> Sequence[JobId]:
        """Begin the term of a shard; return the active jobs of all shards, as they are from then on.

        Raises as `Store.begin_shards`, for all that begin with it.
        """
        self._waiting[shard] = term
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin(), name="terms of shards")
        return await asyncio.shield(self._beginning)

    async def _begin(self) -> Sequence[JobId]:
        await asyncio.sleep(0)  # others that are to begin now come meanwhile
        terms, self._waiting, self._beginning = self._waiting, {}, None
        await self._store.begin_shards(Role.JOBMGR.value, terms)
        return await self._store.jobs.active()


class Followers(Protocol):
    """Who is told what an engine has, in the order in which it changes the jobs."""

    def began(self, shard: int, term: int) -> None:
        """Take that a shard is owned; no job of it has changed yet."""
        ...

    async def drained(self, shard: int) -> None:
        """Take that a shard is not owned any more, and that all its changes were told."""
        ...

    def dropped(self, shard: int) -> None:
        """Take that a shard is lost, if it was owned."""
        ...


class EngineShards:
    """Opens, drains and drops shards in an engine."""

    def __init__(self, engine: Engine, give_up: Callable[[Fenced], None]) -> None:
        """Call `give_up` where the store says that a shard is another one's though it is owned here."""
        self._engine = engine
        self._give_up = give_up
        self._stored = StoredTerms(engine.store)
        self._reopening: dict[int, asyncio.Task[None]] = {}
        self._terms: dict[int, int] = {}
        """In which shards were opened."""
        self.followers: Sequence[Followers] = ()
        engine.lanes.on_fenced(self._fenced)

    async def open(self, shard: int, term: int) -> None:
        """Begin the term of a shard in the store, and know its active jobs. Raises Fenced."""
        await self._engine.lanes.dropped(shard)
        self._terms[shard] = term
        delays = backoff()
        while True:
            try:
                self._add(shard, await self._stored.begin(shard, term))
                return
            except Fenced:  # another session owns it, whatever the registry says: this one is given up
                raise
            except TRANSIENT as error:
                log.warning("shard %d is not open yet: %s", shard, error)
            await delays.wait()

    async def drain(self, shard: int) -> None:
        """Finish what was begun for a shard, and forget its jobs: another instance may own it any moment."""
        await self._engine.finish(shard)
        self._engine.drop(shard)
        await self._engine.lanes.dropped(shard)
        for follower in self.followers:
            await follower.drained(shard)

    def resume(self, shard: int) -> None:
        """Go on with a shard. Where its jobs are forgotten they are read again."""
        if self._engine.shards.phase(shard) is Phase.DRAINING:
            self._engine.shards.resume(shard)
        elif self._engine.shards.phase(shard) is None:
            self._reopening[shard] = asyncio.create_task(self._reopen(shard), name=f"shard {shard} again")

    def drop(self, shard: int) -> None:
        """Forget a shard at once."""
        if (reopening := self._reopening.pop(shard, None)) is not None:
            reopening.cancel()
        self._engine.store.end_shards([shard])
        self._engine.drop(shard)
        for follower in self.followers:
            follower.dropped(shard)

    async def _reopen(self, shard: int) -> None:
        await self._engine.lanes.dropped(shard)
        delays = backoff()
        while True:
            try:
                self._add(shard, await self._engine.store.jobs.active())
                return
            except TRANSIENT as error:
                log.warning("shard %d is not open again yet: %s", shard, error)
            await delays.wait()

    def _add(self, shard: int, active: Sequence[JobId]) -> None:
        for follower in self.followers:
            follower.began(shard, self._terms[shard])
        self._engine.recovery.add(shard, [job_id for job_id in active if shard_of(job_id) == shard])

    def _fenced(self, job_id: JobId, error: Fenced) -> bool:
        log.warning("job %s is not stored: %s", job_id, error)
        if self._engine.shards.holds(job_id):
            self.drop(shard_of(job_id))
            self._give_up(error)
        return True

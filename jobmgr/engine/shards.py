"""The shards of a leader: it owns all of them for as long as its term lasts, because the table says so.

They are owned by a session that begins with the term and ends after it, when the store is closed. Where the
session is lost, or the table names another one, the term is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from jobmgr.engine.shard_work import StoredTerms
from peloton.clock import Clock
from peloton.daemon.shard_owner import ShardOwner
from peloton.errors import Fenced, Unavailable
from peloton.membership.interface import Member
from peloton.membership.shard_registry import ShardRegistry
from peloton.model.amounts import duration
from peloton.model.ids import JobId
from peloton.model.shard import SHARDS, shard_of
from storage.interface import Fence, Store

WAIT_SECONDS = 20.0
"""How long the session of an earlier leader is waited for: longer than it lasts without a sign of life."""
log = logging.getLogger(__name__)


class LeaderShards:
    """Owns all shards; the port `shard_owner.ShardWork`."""

    def __init__(
        self,
        registry: ShardRegistry,
        member: Member,
        store: Store,
        clock: Clock,
        term: int,
        leads: Fence,
        give_up: Callable[[str], None],
    ) -> None:
        """Own for the leader of a term.

        It assigns while `leads` passes. `give_up` is called with the reason where a shard is lost.
        """
        self._registry = registry
        self._store = store
        self._stored = StoredTerms(store)
        self._give_up = give_up
        self._term = term
        self._leads = leads
        self._owner = ShardOwner(registry, member, self, clock, self._assigns, shared=False)
        self._owning: asyncio.Task[None] | None = None
        self._open: set[int] = set()
        self._all = asyncio.Event()
        self._closing = False

    def fence(self, job_id: JobId) -> None:
        """Raise Fenced where a job's shard is not owned, Unavailable while that is unknown."""
        self._owner.fence(shard_of(job_id))

    @property
    def claim(self) -> str:
        """What calls to other daemons say of the shards that are owned."""
        return self._owner.claim

    async def own_all(self) -> None:
        """Return when all shards are owned.

        Raises Unavailable where that takes too long, and what the registry and the store raise.
        """
        await self._registry.start(SHARDS)
        self._owning = asyncio.create_task(self._owner.run(), name="shards")
        all_open = asyncio.create_task(self._all.wait())
        try:
            await asyncio.wait(
                {all_open, self._owning}, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            all_open.cancel()
        if self._owning.done():
            self._owning.result()
        if not self._all.is_set():
            raise Unavailable(f"{self._missing()} after {duration(WAIT_SECONDS)}")
        log.info("all shards are owned: generation %d", self._registry.seen().table.generation)

    async def keep(self) -> None:
        """Own for ever. Raises what ends that."""
        assert self._owning is not None, "own_all() has not returned"
        await asyncio.shield(self._owning)

    async def close(self) -> None:
        """End the session."""
        self._closing = True
        if self._owning is not None:
            self._owning.cancel()
            await asyncio.gather(self._owning, return_exceptions=True)

    def _assigns(self) -> int | None:
        try:
            self._leads()
        except (Fenced, Unavailable):
            return None
        return self._term

    def _missing(self) -> str:
        table = self._registry.seen().table
        missing = [number for number in range(SHARDS) if number not in self._open]
        owners = sorted({table.shards[number].owner or "nobody" for number in missing})
        return f"{len(missing)} of {SHARDS} shards are still owned by {', '.join(owners)}"

    # The port `shard_owner.ShardWork`.

    async def open(self, shard: int, term: int) -> None:
        """Begin the term of a shard in the store."""
        await self._stored.begin(shard, term)
        self._open.add(shard)
        if len(self._open) == SHARDS:
            self._all.set()

    async def drain(self, shard: int) -> None:
        """Give the term up: only a newer leader gives shards to another session."""
        self._give_up(f"shard {shard} is to have another owner")
        await asyncio.Event().wait()

    def resume(self, shard: int) -> None:
        """Do nothing: the term is being given up."""

    def drop(self, shard: int) -> None:
        """Give the term up, where it has begun."""
        self._store.end_shards([shard])
        self._open.discard(shard)
        if self._all.is_set() and not self._closing:
            self._give_up(f"shard {shard} is lost")

"""Terms of leaders, and the order of one job's writes: what each write passes before it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from peloton.errors import Fenced, Unavailable
from peloton.model.ids import JobId
from peloton.model.versions import OWN
from storage.cassandra.session import Session
from storage.cassandra.shard_terms import AHEAD_MICROSECONDS, LEAST_AHEAD_MICROSECONDS, TRIES, OwnedShards
from storage.interface import Fence
from storage.newer import refuse_newer_writers
from storage.shared_read import SharedRead

T = TypeVar("T")


class Terms:
    """The terms of a handle, if any, and the timestamps of its writes.

    A term reserves its timestamps in the row of the newest term, and the next one begins above them. Whatever
    the clocks of two machines show, all writes of a term win over those of the terms before it. Those of
    shards have one row (`shard_terms`); from the first one on, writes of jobs are checked by their terms.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._term: tuple[str, int] | None = None
        """Of the leader."""
        self._newest = 0
        """The newest term of its role, as last read."""
        self._shards: OwnedShards | None = None
        self._reserved = 0
        self._reserving = asyncio.Lock()
        self._reads = SharedRead(self._read_newest)

    @property
    def held(self) -> bool:
        """Return whether the handle has a term."""
        return self._term is not None or self._shards is not None

    @property
    def leads(self) -> bool:
        """Return whether the handle has a leader's term, and not those of some shards only."""
        return self._term is not None

    def number(self, job_id: JobId) -> int:
        """Return the number of the term in which a job is written, 0 without one."""
        if self._shards is not None:
            return self._shards.term(job_id)
        return self._term[1] if self._term else 0

    async def begin(self, role: str, term: int, fence: Fence) -> None:
        """Begin a leader's term. Raises as `storage.interface.Store` says."""
        assert term > 0, "terms count from 1: 0 stands for none"
        self._session.fence = fence
        rows = await self._session.rows("read_writers")
        refuse_newer_writers({role: version for role, version in rows if version})
        async with self._reserving:
            reserved = await self._claimed(role, term)
            self._reserved = reserved if self._shards is None else min(reserved, self._reserved)
            self._term, self._newest = (role, term), term

    async def begin_shards(self, role: str, terms: Mapping[int, int]) -> None:
        """Begin terms of shards. Raises Fenced where a newer one of any has begun."""
        assert all(term > 0 for term in terms.values()), "terms count from 1: 0 stands for none"
        async with self._reserving:
            shards = self._shards or OwnedShards(self._session, role)
            leader = await self._session.row("read_stamps", role, serial=True)
            self._session.advance_beyond(leader[1] or 0 if leader else 0)
            reserved = await shards.begin(terms)
            self._reserved = reserved if self._term is None else min(reserved, self._reserved)
            self._shards = shards

    def end_shards(self, shards: Collection[int]) -> None:
        """Write no more jobs of these shards."""
        if self._shards is not None:
            self._shards.end(shards)

    async def current_shards(self) -> frozenset[int]:
        """Return the shards that the handle has and whose terms are not over, as they are after the call."""
        return frozenset() if self._shards is None else await self._shards.current()

    async def timestamp(self) -> int:
        """Return the timestamp of a write, later than all before. Raises Fenced where the term is over."""
        when = self._session.timestamp()
        if self.held and when > self._reserved:
            async with self._reserving:
                if when > self._reserved:
                    await self._reserve()
        assert not self.held or when <= self._reserved, "the next term would not win over this write"
        return when

    async def _reserve(self) -> None:
        """Reserve further timestamps, for each kind of term that the handle has.

        Where the leader's is over, those of shards may go on; `check` refuses what is of no job.
        """
        reserved = [] if self._shards is None else [await self._shards.begin({})]
        if self._term is not None:
            try:
                reserved.append(await self._claimed(*self._term))
            except Fenced:
                if self._shards is None:
                    raise
        self._reserved = min(reserved)

    async def check(self, job_id: JobId | None = None) -> None:
        """Raise Fenced where the term is over by which a write is checked, of a job or of something else.

        The term is read after the call.
        """
        if job_id is not None and self._shards is not None:
            await self._shards.reads.made()
            self._shards.require(job_id)
        elif self._term is not None:
            await self._reads.made()
            if self._newest > self._term[1]:
                raise _fenced(*self._term, self._newest)

    def refuse(self, job_id: JobId, found: int) -> None:
        """Raise Fenced where `found`, the term of a job's last change, is newer than the handle's."""
        if self._shards is not None:
            self._shards.refuse(job_id, found)
        elif self._term is not None and found > self._term[1]:
            raise _fenced(*self._term, found)

    async def _read_newest(self) -> None:
        assert self._term is not None, "the handle has no leader's term"
        row = await self._session.row("read_term", self._term[0])
        self._newest = row[0] if row is not None else 0

    async def _claimed(self, role: str, term: int) -> int:
        """Make the term the newest, and reserve timestamps above those of all earlier terms.

        Return the last timestamp that is reserved.
        """
        for _ in range(TRIES):
            found = await self._session.row("read_stamps", role, serial=True)
            newest, reserved = found or (0, None)
            if newest > term:
                raise _fenced(role, term, newest)
            self._session.advance_beyond(reserved or 0)
            ahead = self._session.ahead(AHEAD_MICROSECONDS, LEAST_AHEAD_MICROSECONDS)
            change = ("raise_term", (term, ahead, OWN, role, newest, reserved))
            if await self._session.decide([change if found else ("create_term", (role, term, ahead, OWN))]):
                return ahead
        raise Unavailable(f"{role}: the row of its terms is changed by others repeatedly")


class JobLocks:
    """Run the writes of each job one after the other, in the order of the calls."""

    def __init__(self) -> None:
        self._locks: dict[JobId, asyncio.Lock] = {}
        self._users: dict[JobId, int] = {}

    @asynccontextmanager
    async def of(self, job_id: JobId) -> AsyncIterator[None]:
        """Wait for the earlier writes of the job, and hold back later ones."""
        self._users[job_id] = self._users.get(job_id, 0) + 1
        lock = self._locks.setdefault(job_id, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            self._users[job_id] -= 1
            assert self._users[job_id] >= 0 and self._locks[job_id] is lock, f"two locks of job {job_id}"
            if not self._users[job_id]:
                del self._users[job_id], self._locks[job_id]


class Gate:
    """Admit writes of the port: the handle is open, the job's earlier writes are done, the term is current.

    Raises Unavailable or Fenced. The timestamp of a write is later than those of the handle's earlier writes
    and of earlier terms, and earlier than those of later terms.
    """

    def __init__(self, session: Session, terms: Terms) -> None:
        self._session = session
        self._terms = terms
        self._order = JobLocks()
        self._begun: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[int]:
        """Admit a write that belongs to no job."""
        async with self._session.use():
            yield await self._passed(None)

    async def run(self, job_id: JobId, write: Callable[[int], Awaitable[T]]) -> T:
        """Run a write of the job, which is given its timestamp.

        Once begun, it is finished even if the caller is cancelled, as are calls of clients that disconnect or
        time out: its steps are completed, and the outcome is recorded.
        """
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._session.use())
            await held.enter_async_context(self._order.of(job_id))
            work = asyncio.get_running_loop().create_task(self._made(held.pop_all(), job_id, write))
        self._begun.add(work)
        work.add_done_callback(self._ended)
        return await asyncio.shield(work)

    async def _made(self, held: AsyncExitStack, job_id: JobId, write: Callable[[int], Awaitable[T]]) -> T:
        async with held:
            return await write(await self._passed(job_id))

    def _ended(self, work: asyncio.Task[Any]) -> None:
        self._begun.discard(work)
        if not work.cancelled():
            work.exception()  # otherwise asyncio logs an error that no caller has received

    async def _passed(self, job_id: JobId | None) -> int:
        when = await self._terms.timestamp()
        await self._terms.check(job_id)
        return when


def _fenced(role: str, term: int, newest: int) -> Fenced:
    return Fenced(f"{role}: term {term} is over, term {newest} has begun")

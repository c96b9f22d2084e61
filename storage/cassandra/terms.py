"""Terms of leaders, and the order of one job's writes: what each write passes before it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from peloton.errors import Fenced, Unavailable
from peloton.model.ids import JobId
from peloton.model.versions import OWN
from storage.cassandra.session import Session
from storage.interface import Fence
from storage.newer import refuse_newer_writers

T = TypeVar("T")
_AHEAD_MICROSECONDS = 10_000_000
"""Microseconds by which a term reserves timestamps ahead of its clock."""
_LEAST_AHEAD_MICROSECONDS = 1_000_000
"""The same where its timestamps are ahead of the clock already: enough for as many writes. Each of several
terms in quick succession advances the timestamps by this much only."""
_TRIES = 5


class Terms:
    """The term of a handle, if any, and the timestamps of its writes.

    A term reserves its timestamps in the row of the newest term, and the next one begins above them. Whatever
    the clocks of two machines show, all writes of a term win over those of the terms before it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._term: tuple[str, int] | None = None
        self._reserved = 0
        self._reserving = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        """Return whether the handle has a term."""
        return self._term is not None

    @property
    def number(self) -> int:
        """Return the number of the term, 0 without one."""
        return self._term[1] if self._term else 0

    async def begin(self, role: str, term: int, fence: Fence) -> None:
        """Begin a term. Raises as `storage.interface.Store` says."""
        assert term > 0, "terms count from 1: 0 stands for none"
        self._session.fence = fence
        rows = await self._session.rows("read_writers")
        refuse_newer_writers({role: version for role, version in rows if version})
        self._reserved = await self._claimed(role, term)
        self._term = (role, term)

    async def timestamp(self) -> int:
        """Return the timestamp of a write, later than all before. Raises Fenced where the term is over."""
        when = self._session.timestamp()
        if self._term is not None and when > self._reserved:
            async with self._reserving:
                if when > self._reserved:
                    self._reserved = await self._claimed(*self._term)
        assert self._term is None or when <= self._reserved, "the next term would not win over this write"
        return when

    async def check(self) -> None:
        """Raise Fenced where the term is over. The read begins after the call; waiting calls share one."""
        if self._term is None:
            return
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(self._after(self._running))
        await asyncio.shield(self._waiting)

    def refuse(self, found: int) -> None:
        """Raise Fenced where `found`, the term of a row's last change, is newer than the handle's."""
        if self._term is not None and found > self._term[1]:
            raise _fenced(*self._term, found)

    async def _after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._waiting = self._waiting, None
        assert self._term is not None
        role, term = self._term
        row = await self._session.row("read_term", role)
        if row is not None and row[0] > term:
            raise _fenced(role, term, row[0])

    async def _claimed(self, role: str, term: int) -> int:
        """Make the term the newest, and reserve timestamps above those of all earlier terms.

        Return the last timestamp that is reserved.
        """
        for _ in range(_TRIES):
            found = await self._session.row("read_stamps", role, serial=True)
            newest, reserved = found or (0, None)
            if newest > term:
                raise _fenced(role, term, newest)
            self._session.advance_beyond(reserved or 0)
            ahead = self._session.ahead(_AHEAD_MICROSECONDS, _LEAST_AHEAD_MICROSECONDS)
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
            yield await self._passed()

    async def run(self, job_id: JobId, write: Callable[[int], Awaitable[T]]) -> T:
        """Run a write of the job, which is given its timestamp.

        Once begun, it is finished even if the caller is cancelled, as are calls of clients that disconnect or
        time out: its steps are completed, and the outcome is recorded.
        """
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._session.use())
            await held.enter_async_context(self._order.of(job_id))
            work = asyncio.get_running_loop().create_task(self._made(held.pop_all(), write))
        self._begun.add(work)
        work.add_done_callback(self._ended)
        return await asyncio.shield(work)

    async def _made(self, held: AsyncExitStack, write: Callable[[int], Awaitable[T]]) -> T:
        async with held:
            return await write(await self._passed())

    def _ended(self, work: asyncio.Task[Any]) -> None:
        self._begun.discard(work)
        if not work.cancelled():
            work.exception()  # otherwise asyncio logs an error that no caller has received

    async def _passed(self) -> int:
        when = await self._terms.timestamp()
        await self._terms.check()
        return when


def _fenced(role: str, term: int, newest: int) -> Fenced:
    return Fenced(f"{role}: term {term} is over, term {newest} has begun")

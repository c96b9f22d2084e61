"""The shards of this process: the interpreter of `peloton.sharding.ownership`.

It begins a session, follows the table, has its work open, drain and drop shards, and writes hand-overs. Where
this instance is to assign, it writes assignments, too. When the session is lost it drops everything at once,
and begins another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NoReturn, Protocol

from peloton.backoff import Backoff
from peloton.clock import Clock
from peloton.errors import Conflict, Fenced, Unavailable
from peloton.membership.interface import Member
from peloton.membership.lease import Standing
from peloton.membership.shard_registry import OwnerSession, ShardRegistry, Shards
from peloton.sharding.assignment import assign
from peloton.sharding.claims import claim_of
from peloton.sharding.ownership import Drain, Drop, HandOver, Instruction, Open, Ownership, Resume

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between a write that failed and the next look, and between two sessions."""
LOOK_AGAIN_SECONDS = 2.0
"""After so long without a change the assignment is looked at again: whether this instance leads may not have
been known when the last change came."""
SETTLED_SECONDS = 10.0
"""After a session that lasted so long the next one begins at once."""
log = logging.getLogger(__name__)
Assigns = Callable[[], int | None]
"""Returns the term in which this instance leads, and so assigns; None where another one does."""


class ShardWork(Protocol):
    """What is done for shards. Its calls ask the fence before each lasting effect."""

    async def open(self, shard: int, term: int) -> None:
        """Begin to own a shard; return when its jobs are known."""
        ...

    async def drain(self, shard: int) -> None:
        """Begin nothing more for a shard; return when all that was begun is finished.

        It may be cancelled: by `resume` where the shard is kept, by `drop` where it is lost.
        """
        ...

    def resume(self, shard: int) -> None:
        """Go on with a shard, whether `drain` has returned or not."""
        ...

    def drop(self, shard: int) -> None:
        """Forget a shard at once: another session owns it, or may."""
        ...


class ShardOwner:
    """Owns shards, session after session, while `run` runs."""

    def __init__(
        self,
        registry: ShardRegistry,
        member: Member,
        work: ShardWork,
        clock: Clock,
        assigns: Assigns,
        shared: bool = True,
    ) -> None:
        """Own for a member; `registry` has been started.

        Without `shared`, this instance gives itself all shards when it assigns.
        """
        self._registry = registry
        self._shared = shared
        self._member = member
        self._work = work
        self._clock = clock
        self._assigns = assigns
        self._session: OwnerSession | None = None
        self._ownership: Ownership | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """What opens or drains a shard."""
        self._look = asyncio.Event()
        """Set where something is to be looked at again, though the registry has not changed."""
        self._claim: str | None = None
        """The claim, until what is owned changes."""
        self._hand_over: HandOver | None = None
        """What is to be written; a newer one replaces it."""
        self._to_write = asyncio.Event()
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        self._left = asyncio.Event()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has the error of what opens or drains a shard."""

    def fence(self, shard: int) -> int:
        """Return the term in which a shard is owned. To be asked before each lasting effect.

        Raises Fenced where it is not owned, and Unavailable while that is unknown.
        """
        session, ownership = self._session, self._ownership
        if session is None or ownership is None or not ownership.acts(shard):
            raise Fenced(f"shard {shard} is not owned here")
        standing = session.standing(self._clock.monotonic())
        if standing is Standing.OVER:
            raise Fenced(f"shard {shard} was owned by session {session.name}: that is over")
        if standing is Standing.SUSPENDED:
            raise Unavailable(f"session {session.name} cannot tell whether it still owns shard {shard}")
        return ownership.term(shard)

    def check(self) -> None:
        """Raise Fenced where no session of this instance lives, Unavailable while that is unknown."""
        session = self._session
        standing = Standing.OVER if session is None else session.standing(self._clock.monotonic())
        if standing is Standing.OVER:
            raise Fenced("this instance has no session to own shards now")
        if standing is Standing.SUSPENDED:
            raise Unavailable("this instance cannot tell whether its session still lives")

    @property
    def session(self) -> str:
        """The name of the present session; empty where there is none."""
        return "" if self._session is None else self._session.name

    @property
    def terms(self) -> Mapping[int, int]:
        """The terms of the shards for which something may be done, by number."""
        return {} if self._ownership is None else self._ownership.terms

    @property
    def claim(self) -> str:
        """What calls to other daemons say of the shards that are owned; empty where there are none."""
        if self._claim is None:
            self._claim = claim_of(self.terms)
        return self._claim

    def claim_to(self, shards: Iterable[int]) -> str:
        """Return a claim to those of some shards that are owned; empty where none is."""
        terms = self.terms
        return claim_of({shard: terms[shard] for shard in shards if shard in terms})

    def assign_again(self) -> None:
        """Look again: this instance has begun to lead."""
        self._look.set()

    def give_up(self, error: Fenced) -> None:
        """End the session, and begin another one: one of its shards turned out to be another session's."""
        if self._session is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def leave(self) -> None:
        """Hand all shards over; return when there is none left, or where nobody is there to take them.

        The caller bounds how long that may take.
        """
        session = self._session
        if session is None or not self._takers(session):
            return
        await session.announce_end()
        self._look.set()
        await self._left.wait()

    async def run(self) -> NoReturn:
        """Own shards for ever."""
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                session = await self._registry.begin(self._member)
            except Unavailable as error:
                log.info("no session to own shards yet: %s", error)
                await pauses.wait()
                continue
            began = self._clock.monotonic()
            try:
                await self._own(session)
                log.warning("session %s is lost: its shards are dropped", session.name)
            except Fenced as error:
                log.warning("session %s is given up: %s", session.name, error)
            if self._clock.monotonic() - began >= SETTLED_SECONDS:
                pauses.reset()
            await pauses.wait()

    async def _own(self, session: OwnerSession) -> None:
        """Own shards until the session is lost.

        Raises Fenced where it turns out to be over, and what work raises.
        """
        self._session, self._ownership = session, Ownership(session.name)
        self._failed = asyncio.get_running_loop().create_future()
        working: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(session.lost()),
            asyncio.ensure_future(self._follow(session, self._ownership)),
            asyncio.ensure_future(self._write_hand_overs(session)),
            self._failed,
        ]
        try:
            ended, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            self._drop_all()
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await session.end()

    def _drop_all(self) -> None:
        ownership, self._ownership, self._session = self._ownership, None, None
        self._hand_over = self._claim = None
        for shard in ownership.held if ownership is not None else ():
            self._drop(shard)

    async def _follow(self, session: OwnerSession, ownership: Ownership) -> NoReturn:
        """See each change, and assign where that is this instance's part."""
        while True:
            self._look.clear()
            seen = self._registry.seen()
            self._carry_out(ownership, ownership.see(seen.table, seen.version))
            if not ownership.held and session.name in _leaving(seen):
                self._left.set()
            written = await self._assign(session, seen)
            if not written and self._registry.seen() == seen and not self._look.is_set():
                await self._changed()

    async def _changed(self) -> None:
        """Wait for a change of the registry, or until something is to be looked at again, for a while."""
        waiting = [
            asyncio.create_task(self._registry.changed()),
            asyncio.create_task(self._look.wait()),
        ]
        try:
            done, _ = await asyncio.wait(
                waiting, timeout=LOOK_AGAIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            for task in waiting:
                task.cancel()

    async def _assign(self, session: OwnerSession, seen: Shards) -> bool:
        """Write the assignment where it is to change; return whether it was tried."""
        term = self._assigns()
        if term is None or session.name not in seen.sessions:
            return False
        others = seen.sessions.keys() - {session.name}
        table = assign(seen.table, seen.sessions, _leaving(seen) if self._shared else others, term)
        if table is seen.table:
            return False
        try:
            await self._registry.replace(session, table, seen.version)
            self._pauses.reset()
            log.info("shards are assigned: generation %d", table.generation)
        except (Conflict, Unavailable) as error:
            log.info("the assignment of shards is not written: %s", error)
            await self._pauses.wait()
        return True

    async def _write_hand_overs(self, session: OwnerSession) -> NoReturn:
        """Write the newest hand-over that is wanted. After a failure the table decides again."""
        pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            wanted, self._hand_over = self._hand_over, None
            if wanted is None:
                continue
            try:
                await self._registry.replace(session, wanted.table, wanted.version)
                pauses.reset()
            except (Conflict, Unavailable) as error:
                log.info("shards are not handed over yet: %s", error)
                await pauses.wait()
                self._look.set()

    def _takers(self, session: OwnerSession) -> set[str]:
        """Return the sessions to which shards can be handed over."""
        seen = self._registry.seen()
        return seen.sessions.keys() - _leaving(seen) - {session.name}

    def _carry_out(self, ownership: Ownership, instructions: list[Instruction]) -> None:
        self._claim = None
        for instruction in instructions:
            match instruction:
                case Open(shard, term):
                    self._start(shard, self._open(ownership, shard, term))
                case Drain(shard):
                    self._start(shard, self._drain(ownership, shard))
                case Resume(shard):
                    self._stop(shard)
                    self._work.resume(shard)
                case Drop(shard):
                    self._drop(shard)
                case HandOver():
                    self._hand_over = instruction
                    self._to_write.set()

    async def _open(self, ownership: Ownership, shard: int, term: int) -> None:
        await self._work.open(shard, term)
        self._carry_out(ownership, ownership.opened(shard))

    async def _drain(self, ownership: Ownership, shard: int) -> None:
        await self._work.drain(shard)
        self._carry_out(ownership, ownership.drained(shard))

    def _drop(self, shard: int) -> None:
        self._stop(shard)
        self._work.drop(shard)

    def _start(self, shard: int, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[shard] = task = asyncio.create_task(work, name=f"shard {shard}")
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _stop(self, shard: int) -> None:
        if (task := self._tasks.pop(shard, None)) is not None:
            task.cancel()


def _leaving(seen: Shards) -> set[str]:
    return {name for name, info in seen.sessions.items() if info.leaving}

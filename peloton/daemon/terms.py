"""The terms in which a daemon leads: campaigns, the work of each term, and its fence."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial

from peloton.backoff import Backoff
from peloton.clock import Clock
from peloton.daemon.metrics import LEADER
from peloton.daemon.supervise import Scopes
from peloton.errors import Fenced, PelotonError, Refused, Unavailable
from peloton.membership.interface import Leadership, Member, Membership, Role
from peloton.membership.lease import Standing
from peloton.model.amounts import duration, elapsed

Leading = Callable[[int], AbstractAsyncContextManager[None]]
Standby = Callable[[], AbstractAsyncContextManager[None]]
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between a failed attempt to lead and the next one."""
LONGEST_REST = 30.0
"""The same after a term that began and was lost: others may be spared the load that ended it."""
SETTLED_SECONDS = 60.0
"""A term that was lost before has ended early. Several in a row are told."""
STEP_DOWN_SECONDS = 15.0
FINISH_SECONDS = 8.0
"""Part of these seconds in which a term may finish what was begun."""
log = logging.getLogger(__name__)


class EarlyEnds:
    """The terms in a row that could not begin or ended early, and the pauses after them."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""
        """How the last of them ended."""
        self._tries = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._rests = Backoff(FIRST_PAUSE, LONGEST_REST, jitter=0.5)

    def note(self, term: int, began: bool, seconds: float, why: str) -> float:
        """Note the end of a term that lasted so long; return the pause until the next campaign."""
        if began and seconds >= SETTLED_SECONDS:
            self.count, self.last = 0, ""
            self._tries.reset()
            self._rests.reset()
            return self._rests.next()
        self.count += 1
        self.last = f"term {term} ended after {elapsed(seconds)}: {why}" if began else f"term {term}: {why}"
        return (self._rests if began else self._tries).next()

    def text(self) -> str:
        """Describe them; empty where there are none."""
        if not self.count:
            return ""
        return self.last if self.count == 1 else f"{self.count} terms in a row ended early; {self.last}"


class Terms:
    """The terms of one process. It leads in one at a time, and in none where no election takes place."""

    def __init__(self, role: Role, clock: Clock, scopes: Scopes) -> None:
        """Background tasks of a term are in a scope of their own, the innermost of `scopes`."""
        self.leadership: Leadership | None = None
        """That of the present term."""
        self.elected = False
        """Whether an election decides who leads."""
        self._role = role
        self._clock = clock
        self._scopes = scopes
        self._finish: Callable[[], Awaitable[None]] | None = None
        self._ends = EarlyEnds()
        self._why = ""
        """Why the present term could not begin, or was given up."""
        self._given_up = asyncio.Event()
        self._pausing_until = 0.0
        self.began_at: float | None = None
        """When the present term began, on the monotonic clock; None where none has."""

    @property
    def fence(self) -> Callable[[], None]:
        """Return a check to call before any lasting effect of the present term.

        It raises Fenced where the term is over, even if another has begun here since, and Unavailable while
        that is unknown. It passes where no election takes place.
        """
        return partial(self._check, self.leadership)

    @property
    def give_up(self) -> Callable[[str], None]:
        """Return a function that ends the present term, for a reason: somebody else may do its work.

        Nothing that was begun is finished. It has no effect once the term is over.
        """
        return partial(self._give_up, self.leadership)

    def _give_up(self, leadership: Leadership | None, why: str) -> None:
        if leadership is None or leadership is not self.leadership or self._given_up.is_set():
            return
        if leadership.standing(self._clock.monotonic()) is not Standing.OVER:
            self._why = why
            self._given_up.set()

    def before_stepping_down(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Call a function when the present term ends in order, before its background tasks are ended.

        It may take no longer than FINISH_SECONDS, and is skipped where leadership is lost.
        """
        self._finish = finish

    async def campaign(
        self, membership: Membership, member: Member, leading: Leading, standby: Standby
    ) -> None:
        """Campaign without end; enter `leading(term)` when elected, and leave it on stepping down."""
        async with standby():
            while True:
                leadership = await membership.campaign(member)
                elected = self._clock.monotonic()
                try:
                    began = await self._lead(leadership, leading)
                finally:
                    await leadership.resign()
                seconds = self._clock.monotonic() - elected
                pause = self._ends.note(leadership.term, began, seconds, self._why or "leadership was lost")
                self._pausing_until = self._clock.monotonic() + pause
                log.info("campaigning again in %.1f s", pause)
                await asyncio.sleep(pause)

    def trouble(self) -> str:
        """Return why this instance does not get to lead; empty while it leads, and where nothing failed."""
        if self.began_at is not None or not self._ends.count:
            return ""
        left = self._pausing_until - self._clock.monotonic()
        again = f"campaigning again in {elapsed(left)}" if left > 0 else "campaigning again"
        if self.leadership is not None:
            again = f"term {self.leadership.term} is about to begin"
        return f"cannot stay leader: {self._ends.text()}; {again}"

    def remark(self) -> str:
        """Return what was before the present term, while that is young and there were failures."""
        if self.began_at is None or not self._ends.count or self.leadership is None:
            return ""
        seconds = self._clock.monotonic() - self.began_at
        if seconds >= SETTLED_SECONDS:
            return ""
        return f"leads in term {self.leadership.term} for {elapsed(seconds)}; before: {self._ends.text()}"

    def _check(self, leadership: Leadership | None) -> None:
        if leadership is None:
            if self.elected:
                raise Fenced(f"this {self._role.value} does not lead")
            return
        standing = leadership.standing(self._clock.monotonic())
        if leadership is not self.leadership or standing is Standing.OVER:
            raise Fenced(f"this {self._role.value} led in term {leadership.term}: that is over")
        if standing is Standing.SUSPENDED:
            raise Unavailable(f"this {self._role.value} cannot tell whether it still leads")

    async def _lead(self, leadership: Leadership, leading: Leading) -> bool:
        """Lead for one term; return whether it started. A start that fails gives up leadership."""
        self.leadership, began = leadership, asyncio.Event()
        self._why = ""
        self._given_up.clear()
        lost = asyncio.create_task(leadership.lost())
        given_up = asyncio.create_task(self._given_up.wait())
        term = asyncio.create_task(self._run(leading(leadership.term), leadership.term, began))
        try:
            await asyncio.wait({lost, given_up, term}, return_when=asyncio.FIRST_COMPLETED)
            held = leadership.standing(self._clock.monotonic()) is Standing.HELD
            held = held and not lost.done() and not given_up.done()
        finally:
            lost.cancel()
            given_up.cancel()
            await _cancel(term)
            self.leadership = self.began_at = None
        error = None if term.cancelled() else term.exception()
        if error is not None and held:
            raise error
        if not held:
            why = self._why or (str(error) if error else "")
            log.warning("leadership of term %d is lost%s", leadership.term, f": {why}" if why else "")
        return began.is_set()

    async def _run(self, leading: AbstractAsyncContextManager[None], term: int, began: asyncio.Event) -> None:
        """Lead. Raises where a background task failed: that ends the daemon, unless leadership is lost."""
        async with self._scopes.inner() as scope:
            try:
                async with AsyncExitStack() as stack:
                    try:
                        await stack.enter_async_context(leading)
                    except Refused:  # wrong credentials, a newer schema: no later try will succeed
                        raise
                    except (PelotonError, OSError) as error:
                        log.error("cannot lead in term %d: %s", term, error)
                        self._why = f"it could not begin: {error}"
                        return
                    stack.push_async_callback(scope.close)
                    log.info("leading in term %d", term)
                    LEADER.set(1)
                    self.began_at = self._clock.monotonic()
                    began.set()
                    try:
                        raise PelotonError(await scope.failed())
                    except asyncio.CancelledError:
                        await self._finish_term()
                        raise
            finally:
                self._finish = None
                LEADER.set(0)

    async def _finish_term(self) -> None:
        """Call the function given to `before_stepping_down`, unless leadership is lost or given up."""
        if self._finish is None or self._given_up.is_set():
            return
        try:
            self.fence()
            async with asyncio.timeout(FINISH_SECONDS):
                await self._finish()
        except (PelotonError, TimeoutError) as error:
            log.warning("not all that was begun is finished: %s", error or "out of time")


async def _cancel(term: asyncio.Task[None]) -> None:
    """Cancel a task.

    Raises PelotonError where the leader's role cannot be left; the end of the process leaves it then.
    """
    term.cancel()
    _, left = await asyncio.wait({term}, timeout=STEP_DOWN_SECONDS)
    if left:
        raise PelotonError(f"could not leave the leader's role in {duration(STEP_DOWN_SECONDS)}")

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

Leading = Callable[[int], AbstractAsyncContextManager[None]]
Standby = Callable[[], AbstractAsyncContextManager[None]]
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between a failed attempt to lead and the next one."""
STEP_DOWN_SECONDS = 15.0
FINISH_SECONDS = 8.0
"""Part of these seconds in which a term may finish what was begun."""
log = logging.getLogger(__name__)


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

    @property
    def fence(self) -> Callable[[], None]:
        """Return a check to call before any lasting effect of the present term.

        It raises Fenced where the term is over, even if another has begun here since, and Unavailable while
        that is unknown. It passes where no election takes place.
        """
        return partial(self._check, self.leadership)

    def before_stepping_down(self, finish: Callable[[], Awaitable[None]]) -> None:
        """Call a function when the present term ends in order, before its background tasks are ended.

        It may take no longer than FINISH_SECONDS, and is skipped where leadership is lost.
        """
        self._finish = finish

    async def campaign(
        self, membership: Membership, member: Member, leading: Leading, standby: Standby
    ) -> None:
        """Campaign without end; enter `leading(term)` when elected, and leave it on stepping down."""
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        async with standby():
            while True:
                leadership = await membership.campaign(member)
                try:
                    if await self._lead(leadership, leading):
                        backoff.reset()
                finally:
                    await leadership.resign()
                pause = backoff.next()
                log.info("campaigning again in %.1f s", pause)
                await asyncio.sleep(pause)

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
        lost = asyncio.create_task(leadership.lost())
        term = asyncio.create_task(self._run(leading(leadership.term), leadership.term, began))
        try:
            await asyncio.wait({lost, term}, return_when=asyncio.FIRST_COMPLETED)
            held = leadership.standing(self._clock.monotonic()) is Standing.HELD and not lost.done()
        finally:
            lost.cancel()
            await _cancel(term)
            self.leadership = None
        error = None if term.cancelled() else term.exception()
        if error is not None and held:
            raise error
        if not held:
            log.warning("leadership of term %d is lost%s", leadership.term, f": {error}" if error else "")
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
                        return
                    stack.push_async_callback(scope.close)
                    log.info("leading in term %d", term)
                    LEADER.set(1)
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
        """Call the function given to `before_stepping_down`, unless leadership is lost."""
        if self._finish is None:
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
        raise PelotonError(f"could not leave the leader's role in {STEP_DOWN_SECONDS:g} s")

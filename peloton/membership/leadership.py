"""Leadership in ZooKeeper: a lease, and the thread that renews it.

On a starved machine the event loop is busy for seconds with one step of work. That must not end the term: the
next leader would begin the same work anew. So a thread of its own renews the lease. The loop gives signs of
life. Where none came for some time, longer than a lease, the loop is stuck: the thread ends the lease, and
gives up the place, so that another instance leads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass

from peloton.clock import SystemClock
from peloton.errors import Conflict, PelotonError, Unavailable
from peloton.membership.connection import Connection, check, drop, put
from peloton.membership.lease import Lease, Standing
from peloton.model.amounts import elapsed

PAUSE = 0.2
RESIGN_SECONDS = 1.0
RENEWALS = 5
"""Renewals of the lease in a session's length."""
SIGNS = 10
"""Signs of life in the time after which the loop counts as stuck."""
log = logging.getLogger(__name__)
_clock = SystemClock()


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of one role."""

    role: str

    @property
    def leader(self) -> str:
        """Path of the leader's node."""
        return f"{self.role}/leader"

    @property
    def term(self) -> str:
        """Path of the node of the term."""
        return f"{self.role}/term"

    @property
    def contenders(self) -> str:
        """Path of the queue of contenders."""
        return f"{self.role}/contenders"

    @property
    def members(self) -> str:
        """Path of the members."""
        return f"{self.role}/members"

    @property
    def persistent(self) -> tuple[str, ...]:
        """Nodes that outlive sessions."""
        return self.term, self.contenders, self.members, self.role


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a leader."""

    paths: Paths
    own: str
    """Path of its node in the queue."""
    term: int


class ZooKeeperLeadership:
    """Leadership as described in `interface.Leadership`. Its lease is used under a lock by two threads."""

    def __init__(
        self, connection: Connection, place: Place, version: int, lease: Lease, patience: float
    ) -> None:
        """Renew the lease as long as the loop is not silent for `patience` seconds."""
        self._connection = connection
        self._place = place
        self._version = version
        self._lease = lease
        self._guard = threading.Lock()
        self._patience = patience
        self._over = asyncio.Event()
        self._wake = threading.Event()
        self._resigned = False
        self._loop = asyncio.get_running_loop()
        self._last_sign = _clock.monotonic()
        connection.on_state.append(self._on_state)
        # Changes of the connection since the answer to the election were not reported to this object.
        self._on_state("CONNECTED" if connection.is_connected else "SUSPENDED")
        self._living = asyncio.create_task(self._give_signs(), name="signs of life")
        threading.Thread(target=self._keep_renewing, name="lease", daemon=True).start()

    @property
    def term(self) -> int:
        """Number of the term."""
        return self._place.term

    def standing(self, now: float) -> Standing:
        """Return whether a leader may act now."""
        with self._guard:
            return self._lease.standing(now)

    async def lost(self) -> None:
        """Wait until leadership is over by itself."""
        await self._over.wait()

    async def resign(self) -> None:
        """Give up leadership.

        Where ZooKeeper cannot be reached, the end of the session or this member's next candidacy does it.
        """
        self._resigned = True
        self._end()
        self._living.cancel()
        await asyncio.gather(self._living, return_exceptions=True)
        if self._on_state in self._connection.on_state:
            self._connection.on_state.remove(self._on_state)
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                await self._connection.commit(drop(self._place.own), drop(self._place.paths.leader))
        except (PelotonError, TimeoutError) as error:
            log.info("the end of term %d could not be sent to ZooKeeper: %r", self.term, error)

    async def _give_signs(self) -> None:
        while True:
            self._last_sign = _clock.monotonic()
            await asyncio.sleep(self._patience / SIGNS)

    def _on_state(self, state: str) -> None:
        if state == "LOST":
            self._end()
            self._over.set()
        with self._guard:
            if state == "SUSPENDED":
                self._lease.suspend(_clock.monotonic())
            elif state == "CONNECTED":
                self._lease.shorten(self._connection.granted)
        self._wake.set()

    def _end(self) -> None:
        with self._guard:
            self._lease.end()
        self._wake.set()

    # In the thread.

    def _keep_renewing(self) -> None:
        """Renew the lease until it is over: a leader that cannot renew it gives up leadership."""
        try:
            why = self._renew_until_over()
        except PelotonError as error:
            why = str(error)
        self._end()
        if not self._resigned:
            log.warning("term %d is over: %s", self.term, why)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._over.set)

    def _renew_until_over(self) -> str:
        """Renew the lease; return why it is over. Raises PelotonError where the election is lost."""
        while (left := self._until - _clock.monotonic()) > 0:
            silent = _clock.monotonic() - self._last_sign
            if silent > self._patience:
                self._give_up_place()
                return f"the event loop did nothing for {elapsed(silent)}"
            self._wake.clear()
            try:
                self._renew(left)
                self._wake.wait(self._lease.session / RENEWALS)
            except Unavailable:
                self._wake.wait(PAUSE)
        return "ZooKeeper ended the session, or did not answer in time"

    @property
    def _until(self) -> float:
        with self._guard:
            return self._lease.until

    def _renew(self, timeout: float) -> None:
        """Renew the lease.

        Raises NotFound or Conflict where the election is lost, Unavailable where the outcome is unknown.
        """
        stamp, paths, value = _clock.monotonic(), self._place.paths, text_of(self.term)
        try:
            *_, stat = self._connection.commit_blocking(
                timeout,
                check(self._place.own, 0),
                check(paths.leader, 0),
                put(paths.term, value, self._version),
            )
        except Conflict:
            # An earlier renewal may have succeeded though its answer was lost.
            node = self._connection.get_blocking(timeout, paths.term)
            if node.value != value or node.version == self._version:
                raise
            self._version = node.version
            self._wake.set()
            return
        self._version = stat.version
        with self._guard:
            self._lease.renew(stamp, _clock.monotonic())

    def _give_up_place(self) -> None:
        """Let another instance lead. The lease ends first: from then on this one does nothing."""
        self._end()
        try:
            self._connection.commit_blocking(
                RESIGN_SECONDS, drop(self._place.own), drop(self._place.paths.leader)
            )
        except PelotonError as error:
            log.warning("the end of term %d could not be sent to ZooKeeper: %s", self.term, error)


def text_of(term: int) -> bytes:
    """Return the content of the node of a term."""
    return str(term).encode()

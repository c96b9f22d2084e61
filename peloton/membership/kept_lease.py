"""A lease in ZooKeeper, and the thread that renews it.

On a starved machine the event loop is busy for seconds with one step of work. That must not end the lease:
the next holder would begin the same work anew. So a thread of its own renews it. The loop gives signs of
life. Where none came for some time, longer than a lease, the loop is stuck: the thread ends the lease, and
gives up what it is for, so that another instance takes that over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from peloton.clock import SystemClock
from peloton.errors import PelotonError, Unavailable
from peloton.membership.connection import Connection
from peloton.membership.lease import Lease, Standing
from peloton.model.amounts import elapsed

PAUSE = 0.2
RENEWALS = 5
"""Renewals of the lease in a session's length."""
SIGNS = 10
"""Signs of life in the time after which the loop counts as stuck."""
log = logging.getLogger(__name__)
_clock = SystemClock()
Renew = Callable[[float], bool]
"""Confirms, in the thread and within a number of seconds, that what the lease is for is still held.

It returns whether it did; False: it is to be called again at once. It raises NotFound or Conflict where all
is lost, and Unavailable where the outcome is unknown.
"""


class KeptLease:
    """A lease that is renewed until it is over. It is used under a lock by two threads."""

    def __init__(
        self,
        connection: Connection,
        lease: Lease,
        patience: float,
        name: str,
        renew: Renew,
        give_up: Callable[[], None],
    ) -> None:
        """Renew the lease as long as the loop is not silent for `patience` seconds.

        `name` says in the log what it is for. `give_up` is called, in the thread and after the lease has
        ended, where the loop is silent for longer.
        """
        self._connection = connection
        self._lease = lease
        self._patience = patience
        self._name = name
        self._renew = renew
        self._give_up = give_up
        self._guard = threading.Lock()
        self._over = asyncio.Event()
        self._wake = threading.Event()
        self._left = False
        self._loop = asyncio.get_running_loop()
        self._last_sign = _clock.monotonic()
        connection.on_state.append(self._on_state)
        # Changes of the connection since the call that began the lease were not reported to this object.
        self._on_state("CONNECTED" if connection.is_connected else "SUSPENDED")
        self._living = asyncio.create_task(self._give_signs(), name="signs of life")
        threading.Thread(target=self._keep_renewing, name="lease", daemon=True).start()

    def standing(self, now: float) -> Standing:
        """Return whether the holder may act now."""
        with self._guard:
            return self._lease.standing(now)

    async def lost(self) -> None:
        """Wait until the lease is over by itself."""
        await self._over.wait()

    async def leave(self) -> None:
        """End the lease, and its renewals."""
        self._left = True
        self._end()
        self._living.cancel()
        await asyncio.gather(self._living, return_exceptions=True)
        if self._on_state in self._connection.on_state:
            self._connection.on_state.remove(self._on_state)

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
        """Renew the lease until it is over."""
        try:
            why = self._renew_until_over()
        except PelotonError as error:
            why = str(error)
        self._end()
        if not self._left:
            log.warning("%s is over: %s", self._name, why)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._over.set)

    def _renew_until_over(self) -> str:
        """Renew the lease; return why it is over. Raises PelotonError where what it is for is lost."""
        while (left := self._until - _clock.monotonic()) > 0:
            silent = _clock.monotonic() - self._last_sign
            if silent > self._patience:
                self._end()  # first: from then on nothing is done
                self._give_up()
                return f"the event loop did nothing for {elapsed(silent)}"
            self._wake.clear()
            stamp = _clock.monotonic()
            try:
                if not self._renew(left):
                    continue
            except Unavailable:
                self._wake.wait(PAUSE)
                continue
            with self._guard:
                self._lease.renew(stamp, _clock.monotonic())
            self._wake.wait(self._lease.session / RENEWALS)
        return "ZooKeeper ended the session, or did not answer in time"

    @property
    def _until(self) -> float:
        with self._guard:
            return self._lease.until

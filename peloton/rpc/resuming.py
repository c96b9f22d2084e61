"""When calls of principals with many connections go on, so that they do not keep new calls out.

A client holds back the calls of a connection beyond `connection_streams`, but nothing bounds the
connections. gRPC takes in new calls one after the other, a few passes of the event loop for each. Where one
principal ends calls as fast as that, its next ones pile up inside gRPC by the thousand, those of others among
them, and nothing there knows whose turn it is. So calls of a principal with many connections pause while new
calls wait there: then they come to wait in the fair queue instead, where principals take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

BATCH = 16
"""Calls that go on at once."""
BEHIND_SECONDS = 0.05
"""Calls pause while new ones wait for longer than this inside gRPC."""
LONGEST_PAUSE_SECONDS, LOOK_SECONDS = 0.25, 0.005
"""After the first a batch goes on in any case; the second is the time between two looks."""
FEW_CONNECTIONS = 2
"""A principal with no more connections than this cannot keep others out: together they have few calls."""
RECENT_SECONDS = 5.0
"""A connection counts for so long after a call."""
MOST_PRINCIPALS = 10_000
Ticket = asyncio.Future[None]


class Connections:
    """Which principals call over many connections."""

    def __init__(self) -> None:
        self._recent: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()

    def many(self, key: str, connection: str, now: float) -> bool:
        """Note a call of a principal; return whether its recent calls came over many connections."""
        recent = self._recent.setdefault(key, OrderedDict())
        recent[connection] = now
        recent.move_to_end(connection)
        while len(recent) > FEW_CONNECTIONS + 1 or next(iter(recent.values())) < now - RECENT_SECONDS:
            recent.popitem(last=False)
        self._recent.move_to_end(key)
        if len(self._recent) > MOST_PRINCIPALS:
            self._recent.popitem(last=False)
        return len(recent) > FEW_CONNECTIONS


class Resuming:
    """Calls that may go on, in their order; they pause while new calls wait inside gRPC."""

    def __init__(self, delay: Callable[[float], float], clock: Callable[[], float] = time.monotonic) -> None:
        """Use `delay` for the seconds that new calls wait inside gRPC, at a time of the clock."""
        self._delay = delay
        self._clock = clock
        self._due: dict[Ticket, None] = {}
        self._busy = False

    def add(self, tickets: Iterable[Ticket]) -> None:
        """Let calls go on, now or after those that are due before them."""
        self._due.update(dict.fromkeys(tickets))
        if not self._busy:
            self._resume()

    def withdraw(self, ticket: Ticket) -> bool:
        """Forget a call whose caller has gone; return whether it was still due."""
        return self._due.pop(ticket, self) is None

    def _resume(self) -> None:
        self._busy = bool(self._due)
        if not self._due:
            return
        for ticket in list(self._due)[:BATCH]:
            del self._due[ticket]
            ticket.set_result(None)
        asyncio.get_running_loop().call_soon(self._look, self._clock())

    def _look(self, resumed: float) -> None:
        now = self._clock()
        if self._delay(now) > BEHIND_SECONDS and now - resumed < LONGEST_PAUSE_SECONDS:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look, resumed)
        else:
            self._resume()

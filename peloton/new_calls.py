"""Let new calls in while work holds the event loop for long.

gRPC's asyncio server asks for the next call when the last one was handed over. That takes two iterations of
the event loop, whatever the number of calls that wait. Work that holds the loop for 10 ms in each iteration
therefore lets in 50 calls a second, and all others wait inside gRPC, without a bound. Such work runs some
iterations that hold nothing, between two pieces of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

QUIET_ITERATIONS = 8
"""Calls are let in until none has begun for this number of iterations: the thread of gRPC that takes them
needs some time for the next one."""
MOST_ITERATIONS = 200
"""Calls that never end to come do not stop the work."""
HELD_SECONDS = 0.01
"""After so much work calls are let in: 8 iterations take about 0.1 ms."""
MANY_CALLS = 20
"""A person at a terminal or a browser makes fewer; work goes on in large pieces beside them."""
MANY_SECONDS = 2.0
"""MANY_CALLS within this time are many."""


class NewCalls:
    """The calls that have begun in this process, whose servers run on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = 0
        self._held = 0.0
        self._newest: deque[float] = deque(maxlen=MANY_CALLS)
        """When the newest calls began."""

    def note(self) -> None:
        """Note that a call has begun."""
        self._begun += 1
        self._newest.append(self._clock())

    @property
    def many(self) -> bool:
        """Whether many calls begin at present, so that work should hold the loop for short times only."""
        full = len(self._newest) == MANY_CALLS
        return full and self._clock() - self._newest[0] <= MANY_SECONDS

    async def let_in(self, held: float) -> None:
        """Let other tasks run once and, after much work, let in the calls that wait.

        `held`: the seconds for which the work of the caller has held the loop since it called last.
        """
        self._held += held
        await asyncio.sleep(0)
        if self._held < HELD_SECONDS:
            return
        self._held = 0.0
        quiet = iterations = 0
        while quiet < QUIET_ITERATIONS and iterations < MOST_ITERATIONS:
            begun = self._begun
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._begun == begun else 0
            iterations += 1


NEW_CALLS = NewCalls()

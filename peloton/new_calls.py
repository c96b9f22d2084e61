"""Let new calls in while work holds the event loop for long.

gRPC's asyncio server asks for the next call when the last one was handed over. That takes two iterations of
the event loop, whatever the number of calls that wait. Work that holds the loop for 10 ms in each iteration
therefore lets in 50 calls a second, and all others wait inside gRPC, without a bound. Such work runs some
iterations that hold nothing, between two pieces of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

QUIET_ITERATIONS = 8
"""Calls are let in until none has begun for this number of iterations: the thread of gRPC that takes them
needs some time for the next one."""
MOST_ITERATIONS = 200
"""Calls that never end to come do not stop the work."""
PAUSE_SECONDS = 0.01
"""Work in short pieces pays for it this rarely: 8 iterations take about 0.1 ms."""


class NewCalls:
    """The calls that have begun in this process, whose servers run on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = 0
        self._next = clock()

    def note(self) -> None:
        """Note that a call has begun."""
        self._begun += 1

    async def let_in(self) -> None:
        """Let other tasks run once and, if that was not done for a while, let in the calls that wait."""
        await asyncio.sleep(0)
        if self._clock() < self._next:
            return
        quiet = iterations = 0
        while quiet < QUIET_ITERATIONS and iterations < MOST_ITERATIONS:
            begun = self._begun
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._begun == begun else 0
            iterations += 1
        self._next = self._clock() + PAUSE_SECONDS


NEW_CALLS = NewCalls()

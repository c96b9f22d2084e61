"""Exponential back-off: growing pauses between the tries of one thing."""

from __future__ import annotations

import asyncio
import math
import random

from peloton.model.backoff import exponential


class Backoff:
    """Give pauses in seconds: `first`, then each twice as long as the one before, up to `longest`.

    Each pause is shortened at random by up to the share `jitter`, so that clients which failed together do
    not try again together.
    """

    def __init__(self, first: float, longest: float = math.inf, jitter: float = 0.0) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._failures = 1

    @property
    def longest_next(self) -> float:
        """The next pause before it is shortened."""
        return exponential(self._failures, self._first, self._longest)

    def next(self) -> float:
        """Return the pause to make now; the one after it is longer."""
        pause = self.longest_next
        self._failures += 1
        return shortened(pause, self._jitter)

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._failures = 1

    async def wait(self) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(self.next())


def shortened(pause: float, jitter: float) -> float:
    """Return a pause that is shortened at random by up to the share `jitter`."""
    return pause * random.uniform(1.0 - jitter, 1.0) if jitter else pause

"""Calls to the other daemons: retries and rate limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from jobmgr.engine.transient import backoff
from peloton.errors import PelotonError

log = logging.getLogger(__name__)


class Bucket:
    """A rate limit: `rate` calls a second, `burst` of them at once. A rate of 0 is no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = max(burst, 1)
        self._left = float(self._burst)
        self._at = 0.0

    def share(self, number: int) -> int:
        """Return how many of `number` calls may be made at once."""
        return min(number, self._burst) if self._rate else number

    async def pay(self, number: int) -> None:
        """Wait until `number` calls may be made."""
        if not self._rate:
            return
        now = asyncio.get_running_loop().time()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - number
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._rate)


async def for_ever(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step for ever; after a PelotonError, log it and wait."""
    delays = backoff()
    while True:
        try:
            await step()
            delays.reset()
        except PelotonError as error:
            log.warning("%s: %s", name, error)
            await delays.wait()

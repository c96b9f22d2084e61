"""Calls to the other daemons, as the drivers make them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.errors import PelotonError
from peloton.rpc.client import Caller

CALL_SECONDS = 10.0
log = logging.getLogger(__name__)


class Bucket:
    """So many things a second, and `burst` of them at once; a rate of 0 sets no limit."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = max(burst, 1)
        self._left = float(self._burst)
        self._at = 0.0

    def share(self, wanted: int) -> int:
        """At most so many at once."""
        return min(wanted, self._burst) if self._rate else wanted

    async def pay(self, number: int) -> None:
        """Waits until they may go."""
        if not self._rate:
            return
        now = asyncio.get_running_loop().time()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - number
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / self._rate)


async def until_answered(
    client: Caller, method: str, request: Any, passing: tuple[type[PelotonError], ...] = TRANSIENT
) -> Any:
    """The answer, however long it takes. Raises what is not a passing failure. The request must be safe to
    repeat."""
    pauses = backoff()
    while True:
        try:
            return await client.call(method, request, timeout=CALL_SECONDS)
        except passing as error:
            log.warning("%s: %s", method, error)
        await pauses.wait()


async def for_ever(name: str, step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step; where it fails in Peloton's terms, say so and go on after a pause."""
    pauses = backoff()
    while True:
        try:
            await step()
            pauses.reset()
        except PelotonError as error:
            log.warning("%s: %s", name, error)
            await pauses.wait()

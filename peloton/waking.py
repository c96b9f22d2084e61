"""What background work waits for: a change, or the next tick of a period that it shares with others."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Signal:
    """A change that wakes all tasks waiting for it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def fire(self) -> None:
        """Wake all waiting tasks."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout: float) -> None:
        """Return at the next change, or after `timeout` seconds."""
        event = self._event
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await event.wait()


def until_tick(period: float) -> float:
    """Return the seconds until the next multiple of `period` on the clock of the running loop.

    Work that is repeated by the same period is then due at one moment, for which an idle process wakes once.
    """
    rest = period - asyncio.get_running_loop().time() % period
    return rest if rest > period / 100 else rest + period  # a timer may fire a little early


async def tick(period: float) -> None:
    """Sleep until the next multiple of `period` seconds: about a period from one return to the next."""
    await asyncio.sleep(until_tick(period))

"""Waits of tests for what tells of no change.

They end as soon as it holds, and fail after a minute: less says nothing on a machine that stands still for a
while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds."""


async def until(
    holds: Callable[[], object], what: str = "it holds", seconds: float = PATIENCE, pause: float = 0.002
) -> None:
    """Wait until a condition holds. Raises TimeoutError with `what` where it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(pause)


def wait_until(
    holds: Callable[[], object], what: str = "it holds", seconds: float = PATIENCE, pause: float = 0.01
) -> None:
    """Do the same in a test without an event loop, for what other threads or processes do."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)

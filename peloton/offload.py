"""Run work on the event loop where it is short, and in a thread where it may hold the loop for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
INLINE_BYTES = 32 * 1024
"""What reads so much takes about a millisecond. A thread costs more in a busy process: it waits for the
interpreter's lock, and its result for the next iteration of the loop. 100,000 overrides take seconds."""


async def run_by_size(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns, which takes the longer the larger `size` (bytes) is."""
    if size <= INLINE_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)

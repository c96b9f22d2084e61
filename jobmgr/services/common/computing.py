"""Work on requests: of small ones at once, of large ones in a thread, while the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SMALL_BYTES = 4096
"""What is computed for a request of this size takes less than a millisecond; a thread for it costs more."""


async def computed(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns for a request of `size` bytes; other calls are answered meanwhile."""
    if size <= SMALL_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)

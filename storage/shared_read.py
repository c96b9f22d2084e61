"""A read that all calls share which wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SharedRead:
    """Reads again and again: one read at a time, and the next one for all that have come meanwhile."""

    def __init__(self, read: Callable[[], Awaitable[None]]) -> None:
        """Share the calls of a function, which keeps what it has read."""
        self._read = read
        self._running: asyncio.Task[None] | None = None
        self._waiting: asyncio.Task[None] | None = None

    async def made(self) -> None:
        """Return when a read has succeeded that began after this call. Raises what it raised."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_task(self._after(self._running))
        await asyncio.shield(self._waiting)

    async def _after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._waiting = self._waiting, None
        await self._read()

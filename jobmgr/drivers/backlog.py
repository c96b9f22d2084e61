"""What the lanes were handed and have not stored: a lane that is behind does not hold up the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

PATIENCE_SECONDS = 1.0
"""How long a lane is waited for before it counts as behind."""


class Backlog:
    """Pace a driver that hands events to lanes: it waits until each batch is stored, but for the lanes that
    are behind, and for those too while they have not stored `most` events."""

    def __init__(self, most: int, patience: float = PATIENCE_SECONDS) -> None:
        self._most = most
        self._patience = patience
        self._unstored: Counter[int] = Counter()
        """Batches by lane."""
        self._size = 0
        self._stored = asyncio.Event()

    @property
    def behind(self) -> bool:
        """Whether some lane has not stored its part of an earlier batch."""
        return bool(self._unstored)

    async def add(self, parts: Mapping[int, asyncio.Future[Any]], size: int) -> None:
        """Take a batch of so many events, by lane. Raises what a part raises that is waited for."""
        timely = [part for lane, part in parts.items() if lane not in self._unstored]
        for lane, part in parts.items():
            self._note(lane, part, size)
        if timely:
            done, _ = await asyncio.wait(timely, timeout=self._patience)
            for part in done:
                part.result()
        while self._size > self._most:
            await self._next()

    async def empty(self) -> None:
        """Wait until all is stored."""
        while self._unstored:
            await self._next()

    def _note(self, lane: int, part: asyncio.Future[Any], size: int) -> None:
        self._unstored[lane] += 1
        self._size += size

        def ended(part: asyncio.Future[Any]) -> None:
            if not part.cancelled():
                part.exception()  # whoever waits for the part raises it; the log need not tell of it as well
            self._unstored[lane] -= 1
            if not self._unstored[lane]:
                del self._unstored[lane]
            self._size -= size
            self._stored.set()

        part.add_done_callback(ended)

    async def _next(self) -> None:
        self._stored.clear()
        await self._stored.wait()

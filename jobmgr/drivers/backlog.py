"""Back-pressure of the lanes on the drivers that hand them events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 1.0
"""How long a lane may take to store a batch before it counts as behind."""


class Backlog:
    """Limits the events that a driver has handed to lanes and that are not stored.

    A driver waits until each batch is stored, except by lanes that are behind. While these have more than
    `most` events to store, it waits for them too.
    """

    def __init__(self, most: int, patience: float = PATIENCE_SECONDS) -> None:
        self._most = most
        self._patience = patience
        self._unstored: Counter[int] = Counter()
        """Number of batches by lane."""
        self._size = 0
        self._stored = asyncio.Event()

    @property
    def behind(self) -> bool:
        """Whether some lane has not stored its part of an earlier batch."""
        return bool(self._unstored)

    async def add(self, parts: Mapping[int, asyncio.Future[T]], size: int) -> None:
        """Add a batch of `size` events, by lane, and wait. Raises the error of a part that is waited for."""
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

    def _note(self, lane: int, part: asyncio.Future[T], size: int) -> None:
        self._unstored[lane] += 1
        self._size += size

        def ended(part: asyncio.Future[T]) -> None:
            if not part.cancelled():
                part.exception()  # retrieved: the error is raised where the part is awaited
            self._unstored[lane] -= 1
            if not self._unstored[lane]:
                del self._unstored[lane]
            self._size -= size
            self._stored.set()

        part.add_done_callback(ended)

    async def _next(self) -> None:
        self._stored.clear()
        await self._stored.wait()

"""The bounded queue of one watcher: what a stream of a watch sends, and how it ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import grpc

T = TypeVar("T")

MAX_WATCHES = 1000
WATCH_CANCELLED = "peloton-watch-cancelled"
"""Key of the trailing metadata of a watch that was cancelled by its id."""
MAX_QUEUED = 100
"""Messages that a watcher may be behind."""


@dataclass(frozen=True, slots=True)
class End:
    """Why a watch has ended, as a gRPC status."""

    code: grpc.StatusCode
    text: str
    metadata: tuple[tuple[str, str], ...] = ()


class WatchQueue(Generic[T]):
    """What one watcher has not been sent yet."""

    def __init__(self, watch_id: str) -> None:
        self.id = watch_id
        self.end: End | None = None
        self._queued: deque[T] = deque()
        self._some = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def put(self, item: T) -> bool:
        """Queue an item; where the watcher is too far behind, end the watch and return False."""
        if len(self._queued) >= MAX_QUEUED:
            text = f"the watcher is more than {MAX_QUEUED} messages behind: watch again"
            self.finish(grpc.StatusCode.ABORTED, text)
            return False
        self._queued.append(item)
        self._written.clear()
        self._some.set()
        return True

    async def written(self) -> None:
        """Wait until all items are written to the watcher."""
        await self._written.wait()

    def cancel(self) -> None:
        """End the watch as its watcher requested."""
        metadata = ((WATCH_CANCELLED, "1"),)
        self._end(End(grpc.StatusCode.CANCELLED, f"watch {self.id} is cancelled", metadata))

    def finish(self, code: grpc.StatusCode, text: str) -> None:
        """End the watch; items that are queued are dropped."""
        self._end(End(code, text))

    def _end(self, end: End) -> None:
        self.end = end
        self._queued.clear()
        self._some.set()

    async def items(self) -> AsyncIterator[T]:
        """Yield the queued items until the watch has ended."""
        while True:
            while self._queued:
                yield self._queued.popleft()
            self._written.set()
            if self.end is not None:
                return
            self._some.clear()
            await self._some.wait()

"""A heap of deadlines: each key has at most one, which can be moved and cancelled."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Deadlines(Generic[K]):
    """Deadlines by key, in seconds on the monotonic clock.

    Entries that were moved or cancelled stay in the heap until they come up, or until they outnumber the live
    ones.
    """

    def __init__(self) -> None:
        self._when: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._when)

    def set(self, key: K, when: float) -> None:
        """Set or move the deadline of a key."""
        self._when[key] = when
        self._order += 1
        heappush(self._heap, (when, self._order, key))
        if len(self._heap) > 2 * len(self._when) + _SLACK:
            self._compact()

    def cancel(self, key: K) -> None:
        """Cancel the deadline of a key, if it has one."""
        self._when.pop(key, None)

    def get(self, key: K) -> float | None:
        """Return the deadline of a key, if it has one."""
        return self._when.get(key)

    def next(self) -> float | None:
        """Return the time of the first deadline."""
        heap = self._heap
        while heap and self._when.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float, limit: int) -> list[K]:
        """Remove and return the keys whose deadline has come, earliest first, at most `limit`."""
        found: list[K] = []
        while len(found) < limit and (when := self.next()) is not None and when <= now:
            key = heappop(self._heap)[2]
            del self._when[key]
            found.append(key)
        return found

    def _compact(self) -> None:
        self._heap = [(when, order, key) for order, (key, when) in enumerate(self._when.items())]
        self._order = len(self._heap)
        heapify(self._heap)

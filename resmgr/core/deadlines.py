"""The one heap of deadlines: of gangs (placing, launching, waiting to be tried again) and of tasks."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from resmgr.core.tasks import Gang, Task

_COMPACT_FROM = 1024


class Deadlines:
    """Each subject has one deadline at most: its attribute `deadline`, 0 for none. Setting and cancelling is
    O(log n); entries that have become stale are dropped when they are more than the others."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Gang | Task]] = []
        self._next = 0
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def set(self, subject: Gang | Task, when: float) -> None:
        """Seconds on the monotonic clock, above 0. Replaces an earlier deadline."""
        if not subject.deadline:
            self._live += 1
        subject.deadline = when
        heapq.heappush(self._heap, (when, self._next, subject))
        self._next += 1
        if len(self._heap) > _COMPACT_FROM and len(self._heap) > 2 * self._live:
            self._compact()

    def cancel(self, subject: Gang | Task) -> None:
        if subject.deadline:
            subject.deadline = 0.0
            self._live -= 1

    def next(self) -> float | None:
        """When the earliest deadline is; None: there is none."""
        heap = self._heap
        while heap and heap[0][2].deadline != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> Iterator[Gang | Task]:
        """Take the subjects whose deadline has come, earliest first."""
        while (when := self.next()) is not None and when <= now:
            subject = heapq.heappop(self._heap)[2]
            self.cancel(subject)
            yield subject

    def _compact(self) -> None:
        self._heap = [entry for entry in self._heap if entry[2].deadline == entry[0]]
        heapq.heapify(self._heap)

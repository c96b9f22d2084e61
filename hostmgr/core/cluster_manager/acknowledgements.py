"""Acknowledgements that wait to be sent to the cluster manager."""

from __future__ import annotations

from collections import deque
from itertools import islice

from hostmgr.core.cluster_manager.events import Acknowledgement

BATCH = 256
"""Acknowledgements that are sent before waiting for room."""


class Acknowledgements:
    """The queue of acknowledgements, empty without a connection: a new one brings the statuses again."""

    def __init__(self) -> None:
        self._connected = False
        self._queue: deque[Acknowledgement] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def connected(self) -> None:
        """Queue acknowledgements from now on."""
        self._connected = True

    def disconnected(self) -> None:
        """Drop acknowledgements, and queue none."""
        self._connected = False
        self._queue.clear()

    def add(self, acknowledgement: Acknowledgement) -> bool:
        """Queue an acknowledgement where there is a connection and one is expected; return whether."""
        if not (self._connected and acknowledgement.uuid):
            return False
        self._queue.append(acknowledgement)
        return True

    def batch(self) -> list[Acknowledgement]:
        """Return what to send next. Answered by `sent`; what is not sent is in the next batch again."""
        return list(islice(self._queue, BATCH))

    def sent(self, count: int) -> None:
        """Remove the first ones, which were sent."""
        assert count <= len(self._queue), (count, len(self._queue))
        for _ in range(count):
            self._queue.popleft()

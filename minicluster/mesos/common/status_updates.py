"""Status update streams: per task, the next update goes out only when the one before was acknowledged.

An update that is not acknowledged is sent again after 10, 20, 40, ... seconds, at most 10 minutes (recording
``07-unacknowledged``). Used by real agents and by simulated ones. Pure: time is passed in.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from mesos.v1 import mesos_pb2 as mesos

FIRST_RETRY_SECONDS = 10.0
LAST_RETRY_SECONDS = 600.0

TERMINAL = frozenset(
    {
        mesos.TASK_FINISHED,
        mesos.TASK_FAILED,
        mesos.TASK_KILLED,
        mesos.TASK_ERROR,
        mesos.TASK_LOST,
        mesos.TASK_DROPPED,
        mesos.TASK_GONE,
        mesos.TASK_GONE_BY_OPERATOR,
    }
)
"""States after which a task has ended for good, as Mesos sees it (UNREACHABLE and UNKNOWN may come back)."""

Key = tuple[str, str]
"""Framework id and task id."""


@dataclass(slots=True)
class _Stream:
    wait: float
    pending: tuple[mesos.TaskStatus, ...] = ()
    """A few at most; an empty tuple, of which there is one, for most tasks."""
    latest: int = mesos.TASK_STAGING


class UpdateStreams:
    """All streams of one agent, or of many simulated ones."""

    def __init__(self, first_retry: float = FIRST_RETRY_SECONDS) -> None:
        """``first_retry``: seconds until an unacknowledged update is sent again the first time."""
        self._first_retry = first_retry
        self._streams: dict[Key, _Stream] = {}
        self._due: list[tuple[float, Key, bytes]] = []

    def add(self, key: Key, status: mesos.TaskStatus, now: float) -> mesos.TaskStatus | None:
        """Queue an update; return it when it is to be sent at once."""
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream(wait=self._first_retry)
        stream.pending += (status,)
        stream.latest = status.state
        if len(stream.pending) > 1:
            return None
        self._arm(key, stream, now)
        return status

    def restore(self, key: Key, pending: list[mesos.TaskStatus], latest: int) -> None:
        """Restore a stream from a checkpoint; ``resend`` then sends its first update."""
        self._streams[key] = _Stream(self._first_retry, tuple(pending), latest)

    def acknowledge(self, key: Key, uuid: bytes, now: float) -> tuple[bool, mesos.TaskStatus | None]:
        """Take an acknowledgement; return whether it was expected, and the next update to send."""
        stream = self._streams.get(key)
        if stream is None or not stream.pending or stream.pending[0].uuid != uuid:
            return False, None
        done, *rest = stream.pending
        stream.pending = tuple(rest)
        if done.state in TERMINAL:
            del self._streams[key]
            return True, None
        stream.wait = self._first_retry
        if not stream.pending:
            return True, None
        self._arm(key, stream, now)
        return True, stream.pending[0]

    def _arm(self, key: Key, stream: _Stream, now: float) -> None:
        heapq.heappush(self._due, (now + stream.wait, key, stream.pending[0].uuid))

    def due(self, now: float) -> list[tuple[Key, mesos.TaskStatus]]:
        """Return the updates whose waiting time is over; each waits twice as long the next time."""
        out = []
        while self._due and self._due[0][0] <= now:
            _, key, uuid = heapq.heappop(self._due)
            stream = self._streams.get(key)
            if stream is None or not stream.pending or stream.pending[0].uuid != uuid:
                continue
            stream.wait = min(stream.wait * 2, LAST_RETRY_SECONDS)
            self._arm(key, stream, now)
            out.append((key, stream.pending[0]))
        return out

    def next_due(self) -> float | None:
        """Return when ``due`` should be called next; it may return nothing then."""
        return self._due[0][0] if self._due else None

    def resend(self, framework_id: str | None = None) -> list[tuple[Key, mesos.TaskStatus]]:
        """Return the first pending update of every task (of a framework)."""
        return [
            (key, stream.pending[0])
            for key, stream in self._streams.items()
            if stream.pending and framework_id in (None, key[0])
        ]

    def first(self, key: Key) -> mesos.TaskStatus | None:
        """Return the oldest unacknowledged update of a task."""
        stream = self._streams.get(key)
        return stream.pending[0] if stream is not None and stream.pending else None

    def latest(self, key: Key, default: int) -> int:
        """Return the newest state in any update of a task."""
        stream = self._streams.get(key)
        return stream.latest if stream is not None else default

    def has(self, key: Key) -> bool:
        """Return whether the task still has a stream."""
        return key in self._streams

    def drop(self, key: Key) -> None:
        """Forget a task's stream."""
        self._streams.pop(key, None)

    def drop_framework(self, framework_id: str) -> None:
        """Forget all streams of a framework."""
        for key in [key for key in self._streams if key[0] == framework_id]:
            del self._streams[key]

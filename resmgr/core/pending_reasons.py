"""Reasons for waiting as a bounded log of changes, which jobmgr follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.tasks import Task

MIN_SECONDS = 1.0
"""Least time between two deltas of one task."""
_SCANNED = 20_000
"""Tasks looked at in one step at most."""


@dataclass(frozen=True, slots=True)
class Delta:
    run: Run
    state: TaskState
    reason: str
    """Empty: nothing holds the task up any more."""


class Reasons:
    """Collects changes of `Task.reason` and writes them to a log of at most `capacity` deltas.

    Positions count from 1 in each stream; a stream's id is given by whoever starts it.
    """

    def __init__(self, stream_id: str, capacity: int = 100_000) -> None:
        self.stream_id = stream_id
        self._capacity = capacity
        self._changed: dict[Task, None] = {}
        self._log: deque[Delta] = deque()
        self._last = 0
        self._untold: Iterator[Task] | None = None
        """Tasks of which this stream has said nothing yet; None: there are none."""

    @property
    def last(self) -> int:
        """Position of the newest delta."""
        return self._last

    def set(self, task: Task, reason: str) -> None:
        """Why the task waits; empty: it does not any more."""
        if task.reason != reason:
            task.reason = reason
            self._changed[task] = None

    def flush(self, now: float) -> bool:
        """Write what changed and was not told within the last second; whether there was any."""
        before, due = self._last, []
        for task in self._changed:
            if task.reason == task.told or now - task.told_at >= MIN_SECONDS or not task.told_at:
                due.append(task)
        for task in due:
            del self._changed[task]
            if task.reason != task.told:
                task.told, task.told_at = task.reason, now
                self._append(Delta(task.key, task.state, task.reason))
        return self._last > before

    def holds(self, stream_id: str, after: int) -> bool:
        """Whether the log can be read on from `after`. A caller without a stream may read from its start."""
        if stream_id and stream_id != self.stream_id:
            return False
        position = after if stream_id else 0
        return self._last - len(self._log) <= position <= self._last

    def more(self, after: int) -> bool:
        """Whether there may be something to read after that position."""
        return self._last > after or self._untold is not None

    def read(self, after: int, limit: int) -> Sequence[Delta]:
        """Up to `limit` deltas after that position, which must be held."""
        if self._untold is not None and self._last - after < limit:
            self._tell(self._untold, limit)
        begin = after - (self._last - len(self._log))
        return list(islice(self._log, begin, begin + limit))

    def restart(self, stream_id: str, tasks: Iterator[Task]) -> None:
        """Begin a new stream that tells every one of these tasks that has a reason. Each is looked at when
        the stream is read that far: there may be a million."""
        self.stream_id = stream_id
        self._log.clear()
        self._last = 0
        self._untold = tasks

    def _tell(self, tasks: Iterator[Task], limit: int) -> None:
        """Of the next tasks, up to `limit` that have a reason."""
        found = 0
        for _ in range(_SCANNED):
            task = next(tasks, None)
            if task is None:
                self._untold = None
                return
            if task.reason:
                task.told = task.reason
                self._append(Delta(task.key, task.state, task.reason))
                found += 1
                if found == limit:
                    return

    def _append(self, delta: Delta) -> None:
        self._log.append(delta)
        self._last += 1
        while len(self._log) > self._capacity:
            self._log.popleft()

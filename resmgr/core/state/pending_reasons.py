"""Reasons for waiting as a bounded log of deltas, which jobmgr follows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.state.entities import Gang, Reported, Task

MIN_SECONDS = 1.0
"""Least seconds between two deltas of one task."""
_SCANNED = 20_000
"""Most tasks that one read examines."""


class Common(StrEnum):
    """Reasons without numbers, which decisions may depend on; the others are texts for people alone."""

    CAPACITY_UNKNOWN = "cluster capacity unknown: host manager has not answered"


@dataclass(frozen=True, slots=True)
class Delta:
    """A change of one task's reason."""

    run: Run
    state: TaskState
    reason: str
    """Empty: the task does not wait any more."""


class Reasons:
    """Collect changes of `Task.reason` and write them to a log of at most `capacity` deltas.

    Positions count from 1 in each stream; the caller that starts a stream chooses its id.
    """

    def __init__(self, stream_id: str, capacity: int = 100_000) -> None:
        self.stream_id = stream_id
        self._capacity = capacity
        self._changed: dict[Task, None] = {}
        self._log: deque[Delta] = deque()
        self._last = 0
        self._unreported: Iterator[Task] | None = None
        """Tasks that this stream has not reported yet; None: there are none."""

    def set(self, task: Task, reason: str) -> None:
        """Set why a task waits; empty: it does not wait any more."""
        if task.reason != reason:
            task.reason = reason
            self._changed[task] = None

    def set_gang(self, gang: Gang, reason: str) -> None:
        """Set why the tasks of a gang wait."""
        for task in gang.tasks:
            self.set(task, reason)

    @property
    def untold(self) -> bool:
        """Whether there are changes that are still to be written."""
        return bool(self._changed)

    def flush(self, now: float) -> bool:
        """Write changes of tasks without a delta in the last MIN_SECONDS; return whether there were any."""
        before, due = self._last, []
        for task in self._changed:
            reason, at = task.reported
            if task.reason == reason or now - at >= MIN_SECONDS or not at:
                due.append(task)
        shared: dict[str, Reported] = {}
        for task in due:
            del self._changed[task]
            if task.reason != task.reported.reason:
                reported = shared.get(task.reason)
                if reported is None:
                    reported = shared[task.reason] = Reported(task.reason, now)
                task.reported = reported
                self._append(Delta(task.key, task.state, task.reason))
        return self._last > before

    def holds(self, stream_id: str, after: int) -> bool:
        """Return whether the log can be read from `after`. A caller without a stream reads from its start."""
        if stream_id and stream_id != self.stream_id:
            return False
        position = after if stream_id else 0
        return self._last - len(self._log) <= position <= self._last

    def more(self, after: int) -> bool:
        """Return whether there may be deltas after that position."""
        return self._last > after or self._unreported is not None

    def read(self, after: int, limit: int) -> Sequence[Delta]:
        """Return up to `limit` deltas after that position, which the log must hold."""
        if self._unreported is not None and self._last - after < limit:
            self._report(self._unreported, limit)
        begin = after - (self._last - len(self._log))
        return list(islice(self._log, begin, begin + limit))

    def restart(self, stream_id: str, tasks: Iterator[Task]) -> None:
        """Begin a new stream that reports each of these tasks that has a reason.

        A task is examined when the stream is read that far: there may be a million.
        """
        self.stream_id = stream_id
        self._log.clear()
        self._last = 0
        self._unreported = tasks

    def _report(self, tasks: Iterator[Task], limit: int) -> None:
        """Write deltas of the next tasks, up to `limit` that have a reason."""
        found, shared = 0, dict[Reported, Reported]()
        for _ in range(_SCANNED):
            task = next(tasks, None)
            if task is None:
                self._unreported = None
                return
            if task.reason:
                reported = Reported(task.reason, task.reported.at)
                task.reported = shared.setdefault(reported, reported)
                self._append(Delta(task.key, task.state, task.reason))
                found += 1
                if found == limit:
                    return

    def _append(self, delta: Delta) -> None:
        self._log.append(delta)
        self._last += 1
        while len(self._log) > self._capacity:
            self._log.popleft()

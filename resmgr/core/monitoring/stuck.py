"""Tasks that stay longer than usual in a state that is meant to be short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from peloton.model.states import TaskState
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Task

USUAL_SECONDS: Mapping[TaskState, float] = {
    TaskState.RESERVED: 900.0,
    TaskState.PLACED: 120.0,
    TaskState.LAUNCHING: 120.0,
    TaskState.LAUNCHED: 300.0,
    TaskState.STARTING: 900.0,
    TaskState.PREEMPTING: 300.0,
}
"""What lasts longer is told. A reserved host is awaited for long, an image takes minutes to fetch, and a
preempted task has time to save its work. Most of these states have a longer time-out too (`Limits`)."""
AT_ONCE = 10_000
"""Tasks that one step looks at."""


@dataclass(slots=True)
class Stuck:
    """Tasks of one state that are in it for too long."""

    state: TaskState
    tasks: int
    oldest: Task
    seconds: float
    """For how long the oldest one is in it."""


class StuckSearch:
    """A search through all tasks, in steps: tasks may change between two of them."""

    def __init__(self, scheduler: Scheduler, now: float) -> None:
        """`now`: seconds on the monotonic clock."""
        self._registry = scheduler.registry
        self._now = now
        self._found: dict[TaskState, Stuck] = {}

    def steps(self) -> Iterator[None]:
        """Look at all tasks; yield after each AT_ONCE of them. None where no task is in such a state."""
        if not any(self._registry.states[state] for state in USUAL_SECONDS):
            return
        for number, task in enumerate(self._registry.iterate_in_steps(), 1):
            self._look(task)
            if number % AT_ONCE == 0:
                yield

    def found(self) -> list[Stuck]:
        """Return what has been found, the longest first."""
        return sorted(self._found.values(), key=lambda each: -each.seconds)

    def _look(self, task: Task) -> None:
        state, seconds = task.state, self._now - task.since
        if seconds <= USUAL_SECONDS.get(state, seconds):
            return
        known = self._found.get(state)
        if known is None:
            self._found[state] = Stuck(state, 1, task, seconds)
            return
        known.tasks += 1
        if seconds > known.seconds:
            known.oldest, known.seconds = task, seconds

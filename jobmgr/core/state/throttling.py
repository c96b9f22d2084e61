"""Instances of services that failed and wait, throttled, before their next run."""

from __future__ import annotations

from peloton.model.backoff import exponential
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

THROTTLED = "Task throttled due to failure"
"""The message that people read of such an instance. What is decided depends on `TaskRuntime.throttled`."""
_NANOSECONDS = 1_000_000_000


def throttled_for(task: TaskRuntime, age: float, first: float, longest: float) -> float:
    """Return the seconds that a service's instance still waits before its next run; 0: none.

    `age` is the seconds since its run ended. The wait doubles from `first` with each failure in a row.
    """
    if task.state is TaskState.LOST or not task.failure_count:
        return 0.0
    return max(exponential(task.failure_count, first, longest) - age, 0.0)


def next_try(task: TaskRuntime, first: float, longest: float) -> int:
    """Return when a throttled instance gets its next run, in nanoseconds since 1970."""
    return task.updated_at + round(exponential(task.failure_count, first, longest) * _NANOSECONDS)


def is_throttled(task: TaskRuntime) -> bool:
    """Return whether a service's instance waits before its next run; one that was stopped does not."""
    return task.throttled and task.goal is TaskState.RUNNING and task.state.terminal

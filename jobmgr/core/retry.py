"""When a run that ended is followed by another one (behaviour 3.4), and how long to wait before that."""

from __future__ import annotations

from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskSpec

SYSTEM_FAILURES = frozenset({"CONTAINER_LAUNCH_FAILED", "INVALID_OFFERS", "COMMAND_EXECUTOR_FAILED"})
"""Mesos' reasons for an end that the task itself has no part in."""
SYSTEM_ATTEMPTS = 4
MOST_FAILURES = 100
LONGEST_DELAY = 3600.0
FAILED_STATES = frozenset({TaskState.FAILED, TaskState.LOST, TaskState.KILLED})
"""Ends that count as a failed run; KILLED only where nobody asked for it."""


def runs_again(task: TaskRuntime, spec: TaskSpec) -> bool:
    """Whether a batch task whose run has ended gets the next one; `task.failure_count` counts that run."""
    if task.state not in FAILED_STATES:
        return False
    attempts = min(spec.max_failures, MOST_FAILURES)
    if task.reason in SYSTEM_FAILURES:
        attempts = max(attempts, SYSTEM_ATTEMPTS)
    return task.failure_count < attempts


def delay(attempt: int, first: float = 1.0, longest: float = LONGEST_DELAY) -> float:
    """Seconds before the next try after `attempt` failed ones, doubling from `first`."""
    return min(first * 2.0 ** min(max(attempt - 1, 0), 30), longest)

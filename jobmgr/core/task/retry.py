"""When a run that ended is followed by another one (behaviour 3.4), and how long to wait before that."""

from __future__ import annotations

from enum import Enum

from peloton.model.backoff import exponential
from peloton.model.states import TaskState
from peloton.model.task import MAX_FAILURES, TaskRuntime, TaskSpec, TaskStatus

SYSTEM_FAILURES = frozenset(
    {"CONTAINER_LAUNCH_FAILED", "EXECUTOR_REGISTRATION_TIMEOUT", "INVALID_OFFERS"},
)
"""Mesos' reasons for an end that the task itself has no part in."""
EVICTIONS = frozenset(
    {"AGENT_DRAINING", "AGENT_REMOVED_BY_OPERATOR", "CONTAINER_PREEMPTED", "FRAMEWORK_REMOVED"}
)
"""Mesos' reasons for an end that an operator, or Mesos, brought about."""
SYSTEM_ATTEMPTS = 4
LONGEST_DELAY = 3600.0
_EXECUTOR_FAILED, _BROKEN_PIPE = "COMMAND_EXECUTOR_FAILED", "broken pipe"
_EXECUTOR_TERMINATED = "EXECUTOR_TERMINATED"
_MACHINE_DOWN = "Operator initiated"
"""In the message of a TASK_LOST whose machine was put down for maintenance. Its reason, AGENT_REMOVED, also
stands for an agent that went away."""
_NOT_STARTED = frozenset({TaskState.INITIALIZED, TaskState.PENDING, TaskState.LAUNCHED})


class EndCause(Enum):
    """What ended a run, as far as retries go."""

    SUCCESS = "success"
    TASK = "task"
    """Counts as a failure: tried again up to maxFailures."""
    SYSTEM = "system"
    """Counts as a failure, with some more tries."""
    NOT_STARTED = "not started"
    """It did not happen: always tried again."""
    LOST = "lost"
    """It had started: tried again, but where no failure is allowed at all."""
    EVICTED = "evicted"
    """Killed though nobody of ours asked: always tried again."""

    @property
    def counts(self) -> bool:
        """Whether it is one of the task's failures."""
        return self in (EndCause.TASK, EndCause.SYSTEM)


def cause_of(before: TaskState, end: TaskStatus) -> EndCause:
    """`before` is the state that the run was in when it ended."""
    if end.state is TaskState.SUCCEEDED:
        return EndCause.SUCCESS
    if end.state is TaskState.LOST and before in _NOT_STARTED:
        return EndCause.NOT_STARTED
    if end.reason in EVICTIONS or (end.state is TaskState.LOST and _MACHINE_DOWN in end.message):
        return EndCause.EVICTED
    if end.state is TaskState.LOST:
        return EndCause.LOST
    if end.state is TaskState.KILLED:  # Mesos also kills what fails its health checks
        return EndCause.TASK if end.healthy is False else EndCause.EVICTED
    return EndCause.SYSTEM if _of_the_system(before, end) else EndCause.TASK


def _of_the_system(before: TaskState, end: TaskStatus) -> bool:
    """An executor that ends before it has told of the task has not begun it: its agent was restarted, say."""
    if end.reason == _EXECUTOR_TERMINATED:
        return before in _NOT_STARTED
    if end.reason == _EXECUTOR_FAILED:
        return _BROKEN_PIPE in end.message.lower()
    return end.reason in SYSTEM_FAILURES


def stored_cause(task: TaskRuntime) -> EndCause:
    """Of an end that is stored and that no next run followed at once, as it does what was evicted or had not
    started."""
    end = TaskStatus("", task.state, 0, message=task.message, reason=task.reason, healthy=False)
    return cause_of(TaskState.RUNNING, end)


def runs_again(cause: EndCause, failures: int, spec: TaskSpec) -> bool:
    """Whether a batch task whose run has ended gets the next one; `failures` counts that run."""
    attempts = min(spec.max_failures, MAX_FAILURES)
    if cause is EndCause.SUCCESS:
        return False
    if cause is EndCause.LOST:
        return attempts > 0
    if cause is EndCause.SYSTEM:
        attempts = max(attempts, SYSTEM_ATTEMPTS)
    return not cause.counts or failures < attempts


def explained(cause: EndCause, message: str, again: bool) -> str:
    """The message of an end that the task has no part in, with what comes of it."""
    told = f": {message}" if message else ""
    if cause is EndCause.NOT_STARTED:
        return f"never started, not counted as a failure{told}"
    if cause is EndCause.EVICTED:
        return f"evicted, not counted as a failure{told}"
    if cause is EndCause.LOST:
        return (
            f"lost, not counted as a failure{told}"
            if again
            else f"lost, not retried with maxFailures 0{told}"
        )
    return message


def delay(attempt: int, first: float = 1.0, longest: float = LONGEST_DELAY) -> float:
    """Seconds before the next try after `attempt` failed ones, doubling from `first`."""
    return exponential(attempt, first, longest)

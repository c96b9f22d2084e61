"""Retry policy: when the next run follows one that ended, and the delays between tries.

The rules are those of docs/behaviour/tasks.md, Retry.
"""

from __future__ import annotations

from enum import StrEnum

from peloton.model.backoff import exponential
from peloton.model.states import TaskState
from peloton.model.task import MAX_FAILURES, TaskRuntime, TaskSpec, TaskStatus

SYSTEM_FAILURES = frozenset(
    {"CONTAINER_LAUNCH_FAILED", "EXECUTOR_REGISTRATION_TIMEOUT", "INVALID_OFFERS"},
)
"""Mesos' reasons for ends that the task did not cause."""
EVICTIONS = frozenset(
    {"AGENT_DRAINING", "AGENT_REMOVED_BY_OPERATOR", "CONTAINER_PREEMPTED", "FRAMEWORK_REMOVED"}
)
"""Mesos' reasons for ends that an operator, or Mesos itself, caused."""
SYSTEM_ATTEMPTS = 4
LONGEST_DELAY = 3600.0
_EXECUTOR_FAILED, _BROKEN_PIPE = "COMMAND_EXECUTOR_FAILED", "broken pipe"
_EXECUTOR_TERMINATED = "EXECUTOR_TERMINATED"
_MACHINE_DOWN = "Operator initiated"
"""In the message of a TASK_LOST whose machine was taken down for maintenance. Its reason, AGENT_REMOVED, also
stands for an agent that disappeared."""
_NOT_STARTED = frozenset({TaskState.INITIALIZED, TaskState.PENDING, TaskState.LAUNCHED})


class EndCause(StrEnum):
    """What ended a run, for the retry policy."""

    SUCCESS = "success"
    TASK = "task"
    """Counts as a failure: retried up to maxFailures."""
    SYSTEM = "system"
    """Counts as a failure, with some more retries."""
    NOT_STARTED = "not started"
    """Always retried."""
    LOST = "lost"
    """Lost after its start: retried, unless maxFailures is 0."""
    EVICTED = "evicted"
    """Killed, and not by jobmgr: always retried."""

    @property
    def is_failure(self) -> bool:
        """Whether the end counts as a failure of the task."""
        return self in (EndCause.TASK, EndCause.SYSTEM)


def end_cause(before: TaskState, end: TaskStatus) -> EndCause:
    """Return what ended a run that was in the state `before`."""
    if end.state is TaskState.SUCCEEDED:
        return EndCause.SUCCESS
    if end.state is TaskState.LOST and before in _NOT_STARTED:
        return EndCause.NOT_STARTED
    if end.reason in EVICTIONS or (end.state is TaskState.LOST and _MACHINE_DOWN in end.message):
        return EndCause.EVICTED
    if end.state is TaskState.LOST:
        return EndCause.LOST
    if end.state is TaskState.KILLED:  # Mesos also kills a task that fails its health checks
        return EndCause.TASK if end.healthy is False else EndCause.EVICTED
    return EndCause.SYSTEM if _is_system_failure(before, end) else EndCause.TASK


def _is_system_failure(before: TaskState, end: TaskStatus) -> bool:
    """Return whether the system made a run fail.

    An executor that terminates before the first status of its task did not start it, for instance because its
    agent was restarted.
    """
    if end.reason == _EXECUTOR_TERMINATED:
        return before in _NOT_STARTED
    if end.reason == _EXECUTOR_FAILED:
        return _BROKEN_PIPE in end.message.lower()
    return end.reason in SYSTEM_FAILURES


def stored_cause(task: TaskRuntime) -> EndCause:
    """Return the cause of an end that is stored without a next run.

    It is no eviction and no run that did not start: these are followed by the next run at once.
    """
    end = TaskStatus("", task.state, 0, message=task.message, reason=task.reason, healthy=False)
    return end_cause(TaskState.RUNNING, end)


def runs_again(cause: EndCause, failures: int, spec: TaskSpec) -> bool:
    """Return whether the next run follows one of a batch task; `failures` includes the run that ended.

    A pod of somebody else cannot run again: who has made it makes another one.
    """
    if spec.pod is not None and cause is not EndCause.NOT_STARTED:
        return False
    attempts = min(spec.max_failures, MAX_FAILURES)
    if cause is EndCause.SUCCESS:
        return False
    if cause is EndCause.LOST:
        return attempts > 0
    if cause is EndCause.SYSTEM:
        attempts = max(attempts, SYSTEM_ATTEMPTS)
    return not cause.is_failure or failures < attempts


def counts_for_service(cause: EndCause, end: TaskState) -> bool:
    """Return whether the end of a service's run is one of the instance's failures: every one but a loss."""
    return end is not TaskState.LOST and cause is not EndCause.NOT_STARTED


def explain_end(cause: EndCause, message: str, again: bool) -> str:
    """Return the message of an end, with an explanation where the task did not cause it."""
    suffix = f": {message}" if message else ""
    if cause is EndCause.NOT_STARTED:
        return f"never started, not counted as a failure{suffix}"
    if cause is EndCause.EVICTED:
        return f"evicted, not counted as a failure{suffix}"
    if cause is EndCause.LOST:
        return (
            f"lost, not counted as a failure{suffix}"
            if again
            else f"lost, not retried with maxFailures 0{suffix}"
        )
    return message


def delay(attempt: int, first: float = 1.0, longest: float = LONGEST_DELAY) -> float:
    """Return the seconds before the next try after `attempt` failed ones; they double from `first`."""
    return exponential(attempt, first, longest)

"""What an agent tells of an end that is known already.

When an agent comes back to a new master, the master tells of its tasks' states before the agent's own updates
have come. Such an end is final; the exit code, the message and the times come with the agent's update.
"""

from __future__ import annotations

from typing import TypedDict

from jobmgr.core.task.status_rules import LONGEST_MESSAGE, run_told, termination
from jobmgr.core.task.usage import more_used
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus, Termination

_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


class LateDetails(TypedDict, total=False):
    """What a late status can correct of a run that has ended."""

    start_time: int
    completion_time: int
    message: str
    reason: str
    termination: Termination | None


def details(task: TaskRuntime, run: int, status: TaskStatus) -> LateDetails:
    """What of the current run's runtime changes, by field; nothing where the status is of no such end, or
    tells nothing new. A status without a uuid is the master's."""
    if run != task.run or not status.uuid:
        return {}
    if task.state.terminal and status.state is task.state:
        return _end(task, status)
    if _is_its_start(task, status):
        return {"start_time": status.timestamp}
    return {}


def previous(task: TaskRuntime, run: int, status: TaskStatus) -> str:
    """The message of a task whose next run waits, with what an agent tells of the end of its last run; empty
    where that is nothing new."""
    if run != task.previous_run or not status.uuid or task.state not in _WAITS:
        return ""
    known = task.message.startswith(run_told(run, status.state, "")) and not _holds(task.message, status)
    return run_told(run, status.state, status.message) if known else ""


def usage_of(task: TaskRuntime, changes: LateDetails, need: Resources) -> dict[str, float]:
    """What more (or less) the run has used, by kind, when these fields change."""
    before = task.start_time, task.completion_time
    after = changes.get("start_time", before[0]), changes.get("completion_time", before[1])
    return more_used(need, before, after)


def _is_its_start(task: TaskRuntime, status: TaskStatus) -> bool:
    """Whether an agent tells late when the run began. One that was lost may live."""
    ended = task.state.terminal and task.state is not TaskState.LOST and not task.start_time
    return ended and status.state is TaskState.RUNNING and 0 < status.timestamp <= task.completion_time


def _end(task: TaskRuntime, status: TaskStatus) -> LateDetails:
    news: LateDetails = {}
    completed = status.timestamp or task.completion_time
    if completed != task.completion_time:
        news["completion_time"] = completed
    message = _message(task, status)
    if message != task.message:
        news["message"] = message
    if status.reason != task.reason:
        news["reason"] = status.reason
    how = termination(task.state, task.termination, status.message) or task.termination
    if how != task.termination:
        news["termination"] = how
    return news


def _message(task: TaskRuntime, status: TaskStatus) -> str:
    if _holds(task.message, status):
        return task.message
    asked = task.termination
    if asked is not None and asked.reason is TerminationReason.PREEMPTED_RESOURCES:
        return f"{task.message}; {status.message}"[:LONGEST_MESSAGE]
    return status.message[:LONGEST_MESSAGE]


def _holds(message: str, status: TaskStatus) -> bool:
    return status.message[: LONGEST_MESSAGE // 2] in message

"""Corrections of ends that are known, by late updates of agents.

When an agent registers again with a new master, the master reports the states of its tasks before the
agent's own updates arrive. Such an end is final; the exit code, the message and the times come with the
agent's update. A status without a uuid is the master's.
"""

from __future__ import annotations

from typing import TypedDict

from jobmgr.core.task.authors import told_end
from jobmgr.core.task.status_rules import (
    MAX_MESSAGE_CHARACTERS,
    SKEW_NANOSECONDS,
    ended_run_message,
    termination,
)
from jobmgr.core.task.usage import more_held
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskStatus, Termination

_WAITS = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


class Corrections(TypedDict, total=False):
    """The fields of a run that has ended which a late update can correct."""

    start_time: int
    completion_time: int
    message: str
    reason: str
    termination: Termination | None


def corrections(task: TaskRuntime, run: int, status: TaskStatus) -> Corrections:
    """Return corrections of the current run; none where the status says nothing new of its end."""
    if run != task.run or not status.uuid:
        return {}
    if task.state.terminal and status.state is task.state:
        return _of_end(task, status)
    if _is_start(task, status):
        return {"start_time": status.timestamp}
    return {}


def previous_run_message(task: TaskRuntime, run: int, status: TaskStatus) -> str:
    """Return the message of a waiting task with an update of the end of its last run; empty where not new."""
    if run != task.previous_run or not status.uuid or task.state not in _WAITS:
        return ""
    new = status.state is task.previous_state and not _contains(task.message, status)
    return ended_run_message(run, status.state, status.message) if new else ""


def held_by(task: TaskRuntime, changes: Corrections, need: Resources) -> dict[str, float]:
    """Return how much more (or less) the run has held by these corrections, by kind."""
    before = task.start_time, task.completion_time
    after = changes.get("start_time", before[0]), changes.get("completion_time", before[1])
    return more_held(need, before, after)


def _is_start(task: TaskRuntime, status: TaskStatus) -> bool:
    """Return whether the status has the start of a run that ended. A lost run may be alive."""
    ended = task.state.terminal and task.state is not TaskState.LOST and not task.start_time
    return ended and status.state is TaskState.RUNNING and 0 < status.timestamp <= task.completion_time


def _of_end(task: TaskRuntime, status: TaskStatus) -> Corrections:
    changes: Corrections = {}
    completed = status.timestamp
    first, last = task.start_time - SKEW_NANOSECONDS, task.completion_time + SKEW_NANOSECONDS
    if completed and completed != task.completion_time and first <= completed <= last:
        changes["completion_time"] = completed
    message = _message(task, status)
    if message != task.message:
        changes["message"] = message
    if status.reason != task.reason:
        changes["reason"] = status.reason
    how = termination(task.state, task.termination, status.message) or task.termination
    if how != task.termination:
        changes["termination"] = how
    return changes


def _message(task: TaskRuntime, status: TaskStatus) -> str:
    if task.throttled or _contains(task.message, status):
        return task.message  # of a throttled one it tells that it waits
    return told_end(task.killed_for, status.message)[:MAX_MESSAGE_CHARACTERS]


def _contains(message: str, status: TaskStatus) -> bool:
    """Return whether a message has what an update tells already, which an explanation may stand before."""
    return status.message[: MAX_MESSAGE_CHARACTERS // 2] in message

"""What a status of a run means for its task: duplicates, late ones and those of other runs included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from jobmgr.core.task.retry import EndCause, cause_of
from peloton.model.states import HealthState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus, Termination

_EXITED = re.compile(r"exited with status (-?\d+)")
_SIGNALLED = re.compile(r"terminated with signal ([^\n]+)")

LONGEST_MESSAGE = 2000
PROGRESS: Mapping[TaskState, int] = {
    TaskState.INITIALIZED: 0,
    TaskState.PENDING: 0,
    TaskState.LAUNCHED: 1,
    TaskState.STARTING: 2,
    TaskState.RUNNING: 3,
    TaskState.KILLING: 4,
}
"""A run only goes forward: a status that says less than what is known is late."""


class Verdict(Enum):
    STALE = "stale"
    """Says nothing new: acknowledged and ignored."""
    ORPHAN = "orphan"
    """A run that lives though it was given up: to be killed."""
    FORWARD = "forward"
    """The run went on to the status' state."""
    STARTED = "started"
    """A run that is being killed was heard to run: its start becomes known."""
    HEALTH = "health"
    END = "end"


def judge(task: TaskRuntime, run: int, status: TaskStatus) -> Verdict:
    """`task` is what is known of the instance, `run` the run that the status is about. Run 0 is nobody's."""
    ended = status.state.terminal
    if not run or run != task.run or task.state.terminal:
        return Verdict.STALE if ended else Verdict.ORPHAN
    if ended:
        return Verdict.END
    if PROGRESS[status.state] > PROGRESS[task.state]:
        return Verdict.FORWARD
    if status.state is TaskState.RUNNING:
        if task.state is TaskState.KILLING:
            return Verdict.STALE if task.start_time else Verdict.STARTED
        if status.healthy is not None and health(status.healthy) is not task.health:
            return Verdict.HEALTH
    return Verdict.STALE


def health(healthy: bool) -> HealthState:
    return HealthState.HEALTHY if healthy else HealthState.UNHEALTHY


def end_state(task: TaskRuntime, status: TaskStatus, stopping: bool) -> TaskState:
    """A run that was to be killed is killed, neither lost nor failed, unless it ended by itself: also where
    Mesos knows nothing of it, or its executor ended first."""
    by_itself = cause_of(TaskState.LAUNCHED, status) in (EndCause.SUCCESS, EndCause.TASK)
    return status.state if by_itself or not stopping else TaskState.KILLED


def run_told(run: int, state: TaskState, message: str) -> str:
    """The message of a task whose run ended so and is followed by the next one."""
    told = f": {message}" if message else ""
    return f"run {run} {state.name}{told}"[:LONGEST_MESSAGE]


def termination(end: TaskState, asked: Termination | None, message: str) -> Termination | None:
    """How a run ended. `asked` is why it was to be killed, if it was; None for a run that succeeded."""
    if end is TaskState.SUCCEEDED:
        return None
    reason = asked.reason if asked and end is TaskState.KILLED else TerminationReason.FAILED
    exited, signalled = _EXITED.search(message), _SIGNALLED.search(message)
    return Termination(reason, int(exited[1]) if exited else 0, signalled[1].strip() if signalled else "")

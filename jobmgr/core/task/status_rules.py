"""What a status of a run means for its task, also where it is a duplicate, late, or of another run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from jobmgr.core.task.retry import EndCause, end_cause
from jobmgr.core.task.usage import NANOSECONDS
from peloton.model.states import HealthState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus, Termination

_EXITED = re.compile(r"exited with status (-?\d+)")
_SIGNALLED = re.compile(r"terminated with signal ([^\n]+)")

MAX_MESSAGE_CHARACTERS = 2000
"""Characters of a message that are stored."""
SKEW_NANOSECONDS = 60 * NANOSECONDS
"""By how much an agent's clock may differ from that of the job manager before its times are not used."""
PROGRESS: Mapping[TaskState, int] = {
    TaskState.INITIALIZED: 0,
    TaskState.PENDING: 0,
    TaskState.LAUNCHED: 1,
    TaskState.STARTING: 2,
    TaskState.RUNNING: 3,
    TaskState.KILLING: 4,
}
"""The order of the states of a live run. It never goes back: a status with an earlier state is late."""


class Verdict(Enum):
    """What to do about a status."""

    STALE = "stale"
    """Acknowledge and ignore it: it says nothing new."""
    ORPHAN = "orphan"
    """Kill the run, which is alive and not the current one of its instance."""
    FORWARD = "forward"
    """Take the task to the status' state."""
    STARTED = "started"
    """Note the start of a run that is being killed."""
    HEALTH = "health"
    """Note the health."""
    END = "end"
    """End the run."""


def moment(status: TaskStatus, task: TaskRuntime, now: int) -> int:
    """Return when a status says that something happened to a run; `now` where that cannot be.

    The clocks of agents may be wrong and jump: nothing happens after now, or before the run was launched or
    started. All times are nanoseconds since 1970.
    """
    since = max(task.start_time, task.updated_at if task.state is TaskState.LAUNCHED else 0)
    return status.timestamp if since - SKEW_NANOSECONDS <= status.timestamp <= now + SKEW_NANOSECONDS else now


def judge(task: TaskRuntime, run: int, status: TaskStatus) -> Verdict:
    """Return what a status of `run` means for its task. Run 0 is no run of any instance."""
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
    """Return the state for the result of a health check."""
    return HealthState.HEALTHY if healthy else HealthState.UNHEALTHY


def end_state(task: TaskRuntime, status: TaskStatus, stopping: bool) -> TaskState:
    """Return the state of a run that ended.

    A run that was `stopping` is KILLED, neither LOST nor FAILED, unless it ended by itself. That includes
    runs that Mesos does not know and runs whose executor ended first.
    """
    by_itself = end_cause(TaskState.LAUNCHED, status) in (EndCause.SUCCESS, EndCause.TASK)
    return status.state if by_itself or not stopping else TaskState.KILLED


def ended_run_message(run: int, state: TaskState, message: str) -> str:
    """Return the message of a task whose run ended so and is followed by the next one."""
    suffix = f": {message}" if message else ""
    return f"run {run} {state.name}{suffix}"[:MAX_MESSAGE_CHARACTERS]


def termination(end: TaskState, requested: Termination | None, message: str) -> Termination | None:
    """Return how a run ended; None for one that succeeded. `requested` is why it was killed, if it was."""
    if end is TaskState.SUCCEEDED:
        return None
    reason = requested.reason if requested and end is TaskState.KILLED else TerminationReason.FAILED
    by = requested.by if requested and end is TaskState.KILLED else ""
    exited, signalled = _EXITED.search(message), _SIGNALLED.search(message)
    code, signal = int(exited[1]) if exited else 0, signalled[1].strip() if signalled else ""
    return Termination(reason, code, signal, by)


def restart_reason(task: TaskRuntime) -> TerminationReason:
    """Return why a live run ends that is to be restarted: as its request said, else for the restart."""
    return TerminationReason.KILLED_FOR_RESTART if task.termination is None else task.termination.reason

"""The state machine of a task: which state follows which, by cause.

Every change of a task's state goes through `MACHINE`. A move that is not in the table raises
IllegalTransition.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypedDict

from peloton.model.ids import JobId, task_id
from peloton.model.retry import RuleEnds
from peloton.model.states import HealthState, TaskState
from peloton.model.task import TaskRuntime, Termination
from peloton.statemachine import StateMachine


class Cause(StrEnum):
    """Why a task's state changes."""

    CREATED = "created"
    CREATED_STOPPED = "created stopped"
    """The job or the instance was stopped before the instance had a row."""
    ENQUEUED = "enqueued"
    """resmgr has taken the run."""
    ENQUEUE_REFUSED = "enqueue refused"
    """resmgr does not hold the run, and does not take it."""
    PLACED = "placed"
    """resmgr has handed over a placement: the launch follows."""
    REPORTED_LAUNCHED = "reported launched"
    """Mesos reports the run, as it does in the causes that follow."""
    REPORTED_STARTING = "reported starting"
    REPORTED_RUNNING = "reported running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"
    KILLED = "killed"
    NOT_STARTED = "not started"
    """The run did not happen."""
    SILENT = "silent"
    """The run is given up, after too long a time without a status."""
    CANCELLED = "cancelled"
    """The run was to end before it was launched."""
    KILL = "kill"
    """The run is to end: Mesos is asked to kill it."""
    SURVIVED = "survived"
    """A lost run lives, and nothing has replaced it: it is the current one again."""
    NEXT_RUN = "next run"
    REMOVED = "removed"
    """The instance is taken out of its job. Its row stays, unseen, for the number of its last run."""


_S, _C = TaskState, Cause
MACHINE: StateMachine[TaskState, Cause] = StateMachine(
    "task",
    {
        (_S.UNKNOWN, _C.CREATED): _S.INITIALIZED,
        (_S.UNKNOWN, _C.CREATED_STOPPED): _S.KILLED,
        (_S.INITIALIZED, _C.ENQUEUED): _S.PENDING,
        (_S.INITIALIZED, _C.PLACED): _S.LAUNCHED,
        (_S.INITIALIZED, _C.REPORTED_LAUNCHED): _S.LAUNCHED,
        (_S.INITIALIZED, _C.REPORTED_STARTING): _S.STARTING,
        (_S.INITIALIZED, _C.REPORTED_RUNNING): _S.RUNNING,
        (_S.INITIALIZED, _C.SUCCEEDED): _S.SUCCEEDED,
        (_S.INITIALIZED, _C.FAILED): _S.FAILED,
        (_S.INITIALIZED, _C.KILLED): _S.KILLED,
        (_S.INITIALIZED, _C.NOT_STARTED): _S.LOST,
        (_S.INITIALIZED, _C.CANCELLED): _S.KILLED,
        (_S.INITIALIZED, _C.SURVIVED): _S.RUNNING,
        (_S.PENDING, _C.ENQUEUE_REFUSED): _S.INITIALIZED,
        (_S.PENDING, _C.PLACED): _S.LAUNCHED,
        (_S.PENDING, _C.REPORTED_LAUNCHED): _S.LAUNCHED,
        (_S.PENDING, _C.REPORTED_STARTING): _S.STARTING,
        (_S.PENDING, _C.REPORTED_RUNNING): _S.RUNNING,
        (_S.PENDING, _C.SUCCEEDED): _S.SUCCEEDED,
        (_S.PENDING, _C.FAILED): _S.FAILED,
        (_S.PENDING, _C.KILLED): _S.KILLED,
        (_S.PENDING, _C.NOT_STARTED): _S.LOST,
        (_S.PENDING, _C.CANCELLED): _S.KILLED,
        (_S.PENDING, _C.SURVIVED): _S.RUNNING,
        (_S.LAUNCHED, _C.REPORTED_STARTING): _S.STARTING,
        (_S.LAUNCHED, _C.REPORTED_RUNNING): _S.RUNNING,
        (_S.LAUNCHED, _C.SUCCEEDED): _S.SUCCEEDED,
        (_S.LAUNCHED, _C.FAILED): _S.FAILED,
        (_S.LAUNCHED, _C.KILLED): _S.KILLED,
        (_S.LAUNCHED, _C.NOT_STARTED): _S.LOST,
        (_S.LAUNCHED, _C.SILENT): _S.LOST,
        (_S.LAUNCHED, _C.CANCELLED): _S.KILLED,
        (_S.LAUNCHED, _C.KILL): _S.KILLING,
        (_S.STARTING, _C.REPORTED_RUNNING): _S.RUNNING,
        (_S.STARTING, _C.SUCCEEDED): _S.SUCCEEDED,
        (_S.STARTING, _C.FAILED): _S.FAILED,
        (_S.STARTING, _C.LOST): _S.LOST,
        (_S.STARTING, _C.KILLED): _S.KILLED,
        (_S.STARTING, _C.SILENT): _S.LOST,
        (_S.STARTING, _C.KILL): _S.KILLING,
        (_S.RUNNING, _C.SUCCEEDED): _S.SUCCEEDED,
        (_S.RUNNING, _C.FAILED): _S.FAILED,
        (_S.RUNNING, _C.LOST): _S.LOST,
        (_S.RUNNING, _C.KILLED): _S.KILLED,
        (_S.RUNNING, _C.KILL): _S.KILLING,
        (_S.KILLING, _C.SUCCEEDED): _S.SUCCEEDED,
        (_S.KILLING, _C.FAILED): _S.FAILED,
        (_S.KILLING, _C.LOST): _S.LOST,
        (_S.KILLING, _C.KILLED): _S.KILLED,
        (_S.SUCCEEDED, _C.NEXT_RUN): _S.INITIALIZED,
        (_S.FAILED, _C.NEXT_RUN): _S.INITIALIZED,
        (_S.LOST, _C.NEXT_RUN): _S.INITIALIZED,
        (_S.KILLED, _C.NEXT_RUN): _S.INITIALIZED,
        (_S.SUCCEEDED, _C.REMOVED): _S.DELETED,
        (_S.FAILED, _C.REMOVED): _S.DELETED,
        (_S.LOST, _C.REMOVED): _S.DELETED,
        (_S.KILLED, _C.REMOVED): _S.DELETED,
        (_S.DELETED, _C.CREATED): _S.INITIALIZED,
        (_S.DELETED, _C.CREATED_STOPPED): _S.KILLED,
    },
)
"""The states that jobmgr stores. READY, PLACING and the like exist in resmgr only; UNKNOWN is an instance
without a row. A status can be ahead of what is stored: a run that is INITIALIZED or PENDING may be
reported as running, or as ended."""

REPORTED: Mapping[TaskState, Cause] = {
    _S.LAUNCHED: _C.REPORTED_LAUNCHED,
    _S.STARTING: _C.REPORTED_STARTING,
    _S.RUNNING: _C.REPORTED_RUNNING,
}
"""The cause by the state of a status of a live run."""

ENDED: Mapping[TaskState, Cause] = {
    _S.SUCCEEDED: _C.SUCCEEDED,
    _S.FAILED: _C.FAILED,
    _S.LOST: _C.LOST,
    _S.KILLED: _C.KILLED,
}
"""The cause by the state in which a run has ended."""


class Details(TypedDict, total=False):
    """The fields of a task's runtime that a move sets beside the state."""

    goal: TaskState
    run: int
    config_version: int
    desired_config_version: int
    desired_run: int
    previous_run: int
    host: str
    agent_id: str
    ports: Mapping[str, int]
    start_time: int
    completion_time: int
    message: str
    reason: str
    failure_count: int
    health: HealthState
    termination: Termination | None
    desired_host: str
    volume_id: str
    resource_usage: Mapping[str, float]
    throttled: bool
    killed_for: str
    previous_state: TaskState
    saved_at: int
    rule_ends: RuleEnds | None


def state_after(job_id: JobId, instance: int, task: TaskRuntime, cause: Cause) -> TaskState:
    """Return the state that `cause` leads to. Raises IllegalTransition with a description of the task."""
    state = MACHINE.table.get((task.state, cause))
    if state is None:
        return MACHINE.next(task.state, cause, _description(job_id, instance, task))
    return state


def _description(job_id: JobId, instance: int, task: TaskRuntime) -> str:
    """Describe a task for an error message."""
    return (
        f"{task_id(job_id, instance)} (run {task.run}, desired {task.desired_run}, goal {task.goal.name}, "
        f"revision {task.revision}, updated at {task.updated_at}, host {task.host!r}, "
        f"message {task.message!r})"
    )

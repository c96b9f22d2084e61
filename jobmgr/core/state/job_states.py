"""The state machine of a job, driven by the states of its tasks (docs/behaviour/jobs.md, States)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

from peloton.model.states import TERMINAL_TASK_STATES, JobState, TaskState
from peloton.statemachine import StateMachine


class JobCause(StrEnum):
    """Why a job's state changes: the states of its tasks, and its goal."""

    CREATING = "creating"
    """Some instances have no row yet."""
    WAITING = "waiting"
    """No task runs."""
    RUNNING = "running"
    STOPPING = "stopping"
    """The job is to end, and some tasks have not ended."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


ENDING_JOB_GOALS = frozenset({JobState.KILLED, JobState.DELETED})
"""Goals of a job whose tasks are all to stop, whatever their own goals."""
_J, _C = JobState, JobCause
MACHINE: StateMachine[JobState, JobCause] = StateMachine(
    "job",
    {
        (_J.INITIALIZED, _C.CREATING): _J.INITIALIZED,
        (_J.INITIALIZED, _C.WAITING): _J.PENDING,
        (_J.INITIALIZED, _C.RUNNING): _J.RUNNING,
        (_J.INITIALIZED, _C.STOPPING): _J.KILLING,
        (_J.INITIALIZED, _C.SUCCEEDED): _J.SUCCEEDED,
        (_J.INITIALIZED, _C.FAILED): _J.FAILED,
        (_J.INITIALIZED, _C.KILLED): _J.KILLED,
        (_J.PENDING, _C.CREATING): _J.INITIALIZED,
        (_J.PENDING, _C.WAITING): _J.PENDING,
        (_J.PENDING, _C.RUNNING): _J.RUNNING,
        (_J.PENDING, _C.STOPPING): _J.KILLING,
        (_J.PENDING, _C.SUCCEEDED): _J.SUCCEEDED,
        (_J.PENDING, _C.FAILED): _J.FAILED,
        (_J.PENDING, _C.KILLED): _J.KILLED,
        (_J.RUNNING, _C.CREATING): _J.INITIALIZED,
        (_J.RUNNING, _C.WAITING): _J.PENDING,
        (_J.RUNNING, _C.RUNNING): _J.RUNNING,
        (_J.RUNNING, _C.STOPPING): _J.KILLING,
        (_J.RUNNING, _C.SUCCEEDED): _J.SUCCEEDED,
        (_J.RUNNING, _C.FAILED): _J.FAILED,
        (_J.RUNNING, _C.KILLED): _J.KILLED,
        (_J.KILLING, _C.STOPPING): _J.KILLING,
        (_J.KILLING, _C.SUCCEEDED): _J.SUCCEEDED,
        (_J.KILLING, _C.FAILED): _J.FAILED,
        (_J.KILLING, _C.KILLED): _J.KILLED,
        (_J.SUCCEEDED, _C.SUCCEEDED): _J.SUCCEEDED,
        (_J.FAILED, _C.FAILED): _J.FAILED,
        (_J.KILLED, _C.KILLED): _J.KILLED,
    },
)
"""The moves of a batch job. A job that grows goes back to INITIALIZED; one that has ended stays as it is."""

SERVICE_MACHINE: StateMachine[JobState, JobCause] = StateMachine(
    "service",
    {
        (_J.INITIALIZED, _C.CREATING): _J.INITIALIZED,
        (_J.INITIALIZED, _C.WAITING): _J.PENDING,
        (_J.INITIALIZED, _C.RUNNING): _J.RUNNING,
        (_J.INITIALIZED, _C.STOPPING): _J.KILLING,
        (_J.INITIALIZED, _C.KILLED): _J.KILLED,
        (_J.PENDING, _C.CREATING): _J.INITIALIZED,
        (_J.PENDING, _C.WAITING): _J.PENDING,
        (_J.PENDING, _C.RUNNING): _J.RUNNING,
        (_J.PENDING, _C.STOPPING): _J.KILLING,
        (_J.PENDING, _C.KILLED): _J.KILLED,
        (_J.RUNNING, _C.CREATING): _J.INITIALIZED,
        (_J.RUNNING, _C.WAITING): _J.PENDING,
        (_J.RUNNING, _C.RUNNING): _J.RUNNING,
        (_J.RUNNING, _C.STOPPING): _J.KILLING,
        (_J.RUNNING, _C.KILLED): _J.KILLED,
        (_J.KILLING, _C.CREATING): _J.INITIALIZED,
        (_J.KILLING, _C.WAITING): _J.PENDING,
        (_J.KILLING, _C.RUNNING): _J.RUNNING,
        (_J.KILLING, _C.STOPPING): _J.KILLING,
        (_J.KILLING, _C.KILLED): _J.KILLED,
        (_J.KILLED, _C.CREATING): _J.INITIALIZED,
        (_J.KILLED, _C.WAITING): _J.PENDING,
        (_J.KILLED, _C.RUNNING): _J.RUNNING,
        (_J.KILLED, _C.STOPPING): _J.KILLING,
        (_J.KILLED, _C.KILLED): _J.KILLED,
    },
)
"""The moves of a service. It ends only when it is stopped, and can be started again."""

ENDS: Mapping[TaskState, JobCause] = {
    TaskState.SUCCEEDED: JobCause.SUCCEEDED,
    TaskState.FAILED: JobCause.FAILED,
    TaskState.LOST: JobCause.FAILED,
    TaskState.KILLED: JobCause.KILLED,
    TaskState.DELETED: JobCause.KILLED,
}
"""The end of a job that has a controller, by the end of instance 0."""


def ended_tasks(counts: Mapping[TaskState, int]) -> int:
    """Return the number of tasks in a terminal state."""
    ended = 0
    for state, count in counts.items():
        if state in TERMINAL_TASK_STATES:
            ended += count
    return ended


def batch_cause(
    counts: Mapping[TaskState, int], instances: int, goal: JobState, controller: TaskState | None = None
) -> JobCause:
    """Return the cause of a batch job's next state; `counts` are its stored tasks by state.

    `controller` is the state of instance 0 where that is a controller. A job ends when all its tasks have
    ended; a controller decides how.
    """
    ended = ended_tasks(counts)
    if ended == instances:
        by_controller = ENDS.get(controller) if controller is not None else None
        return by_controller or _end(counts, instances)
    if goal in ENDING_JOB_GOALS:
        return JobCause.STOPPING
    if sum(counts.values()) < instances:
        return JobCause.CREATING
    return JobCause.RUNNING if counts.get(TaskState.RUNNING) else JobCause.WAITING


def gang_cause(
    cause: JobCause,
    counts: Mapping[TaskState, int],
    goal: JobState,
    due: bool,
    succeeded: Callable[[], bool] = lambda: False,
) -> JobCause:
    """Return the cause of the next state of a batch job whose gang ends as one, by that without the gang.

    Where members are `due` to be examined, they may run again. Those that were ended with one that failed
    do not make the job KILLED. Nor do those that were not needed: `succeeded` says whether the gang has
    succeeded without them, and is asked only where all members have ended.
    """
    if goal in ENDING_JOB_GOALS:
        return cause
    if due and cause in (JobCause.SUCCEEDED, JobCause.FAILED, JobCause.KILLED):
        return JobCause.WAITING
    failed = counts.get(TaskState.FAILED, 0) or counts.get(TaskState.LOST, 0)
    if cause is JobCause.KILLED and failed:
        return JobCause.FAILED
    return JobCause.SUCCEEDED if cause is JobCause.KILLED and succeeded() else cause


def service_cause(
    counts: Mapping[TaskState, int], goal: JobState, creating: bool, stopped: Callable[[], bool]
) -> JobCause:
    """Return what the tasks make of a service. `creating`: some instances are to get their first row.

    `stopped` says whether each instance was stopped by itself; it is asked only where all have ended.
    """
    over = not creating and ended_tasks(counts) == sum(counts.values())
    if goal in ENDING_JOB_GOALS:
        return JobCause.KILLED if over else JobCause.STOPPING
    if counts.get(TaskState.RUNNING):
        return JobCause.RUNNING
    if creating:
        return JobCause.CREATING
    return JobCause.KILLED if over and stopped() else JobCause.WAITING


def _end(counts: Mapping[TaskState, int], instances: int) -> JobCause:
    succeeded = counts.get(TaskState.SUCCEEDED, 0)
    if succeeded == instances:
        return JobCause.SUCCEEDED
    if succeeded + counts.get(TaskState.FAILED, 0) + counts.get(TaskState.LOST, 0) == instances:
        return JobCause.FAILED
    return JobCause.KILLED

"""The goal of a task, and the action for each state and goal (docs/behaviour/tasks.md, Goal-state engine)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime


class Goal(StrEnum):
    """What is to become of a task."""

    RUN = "run"
    """Run its current run to its end."""
    STOP = "stop"
    """End for good."""
    RESTART = "restart"
    """End the current run and start the next one."""
    REMOVE = "remove"
    """End, and leave the job."""


class Action(StrEnum):
    """What to do about a task."""

    NOTHING = "nothing"
    ENQUEUE = "enqueue"
    """Hand the run to resmgr, as soon as the job's maximumRunningInstances allows."""
    WATCH = "watch"
    """Mesos has the run: wait for a status, for a bounded time."""
    WITHDRAW = "withdraw"
    """Take the run out of resmgr."""
    KILL = "kill"
    """Store KILLING, then kill the run in Mesos."""
    KILL_AGAIN = "kill again"
    RETRY = "retry"
    """Begin the next run if the retry policy allows one."""
    NEXT_RUN = "next run"
    REMOVE = "remove"
    """Take the instance out of the job."""


_S = TaskState
RULES: Mapping[tuple[TaskState, Goal], Action] = {
    (_S.INITIALIZED, Goal.RUN): Action.ENQUEUE,
    (_S.PENDING, Goal.RUN): Action.NOTHING,
    (_S.LAUNCHED, Goal.RUN): Action.WATCH,
    (_S.STARTING, Goal.RUN): Action.WATCH,
    (_S.RUNNING, Goal.RUN): Action.WATCH,
    (_S.KILLING, Goal.RUN): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Goal.RUN): Action.RETRY,
    (_S.FAILED, Goal.RUN): Action.RETRY,
    (_S.LOST, Goal.RUN): Action.RETRY,
    (_S.KILLED, Goal.RUN): Action.RETRY,
    (_S.INITIALIZED, Goal.STOP): Action.WITHDRAW,
    (_S.PENDING, Goal.STOP): Action.WITHDRAW,
    (_S.LAUNCHED, Goal.STOP): Action.KILL,
    (_S.STARTING, Goal.STOP): Action.KILL,
    (_S.RUNNING, Goal.STOP): Action.KILL,
    (_S.KILLING, Goal.STOP): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Goal.STOP): Action.NOTHING,
    (_S.FAILED, Goal.STOP): Action.NOTHING,
    (_S.LOST, Goal.STOP): Action.NOTHING,
    (_S.KILLED, Goal.STOP): Action.NOTHING,
    (_S.INITIALIZED, Goal.RESTART): Action.WITHDRAW,
    (_S.PENDING, Goal.RESTART): Action.WITHDRAW,
    (_S.LAUNCHED, Goal.RESTART): Action.KILL,
    (_S.STARTING, Goal.RESTART): Action.KILL,
    (_S.RUNNING, Goal.RESTART): Action.KILL,
    (_S.KILLING, Goal.RESTART): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Goal.RESTART): Action.NEXT_RUN,
    (_S.FAILED, Goal.RESTART): Action.NEXT_RUN,
    (_S.LOST, Goal.RESTART): Action.NEXT_RUN,
    (_S.KILLED, Goal.RESTART): Action.NEXT_RUN,
    (_S.INITIALIZED, Goal.REMOVE): Action.WITHDRAW,
    (_S.PENDING, Goal.REMOVE): Action.WITHDRAW,
    (_S.LAUNCHED, Goal.REMOVE): Action.KILL,
    (_S.STARTING, Goal.REMOVE): Action.KILL,
    (_S.RUNNING, Goal.REMOVE): Action.KILL,
    (_S.KILLING, Goal.REMOVE): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Goal.REMOVE): Action.REMOVE,
    (_S.FAILED, Goal.REMOVE): Action.REMOVE,
    (_S.LOST, Goal.REMOVE): Action.REMOVE,
    (_S.KILLED, Goal.REMOVE): Action.REMOVE,
    (_S.DELETED, Goal.REMOVE): Action.NOTHING,
}
"""For the states that jobmgr stores. READY to RESERVED exist in resmgr only."""

ENDING_GOALS = frozenset({Goal.STOP, Goal.REMOVE})
"""Goals after which no run follows."""
STOPPED = frozenset({TaskState.KILLED, TaskState.PREEMPTING})
"""Stored goals of tasks that stay ended; PREEMPTING is that of a preempted task with killOnPreempt."""

# It is asked for several times at each step of a task: names of the module are found faster.
_DELETED = TaskState.DELETED
_RUN, _STOP, _RESTART, _REMOVE = Goal.RUN, Goal.STOP, Goal.RESTART, Goal.REMOVE


def goal_of(job_goal: JobState, task: TaskRuntime) -> Goal:
    """Return the goal of a task. A job that is to end stops all its tasks, whatever their own goals."""
    if task.goal is _DELETED:
        return _REMOVE
    if job_goal in ENDING_JOB_GOALS or task.goal in STOPPED:
        return _STOP
    if task.desired_run > task.run:
        return _RESTART
    return _RUN

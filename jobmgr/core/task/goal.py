"""The goal-state rules (behaviour 3.5): what is done about a task in a state, given where it shall go."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime


class Aim(Enum):
    """Where a task shall go."""

    RUN = "run"
    """Run its current run to its end."""
    STOP = "stop"
    """End for good."""
    RENEW = "renew"
    """End the current run and start the next one."""


class Action(Enum):
    NOTHING = "nothing"
    ENQUEUE = "enqueue"
    """Hand it to resmgr, as soon as the job's maximumRunningInstances allows."""
    WATCH = "watch"
    """Mesos has it: wait for news, but not for ever."""
    WITHDRAW = "withdraw"
    """Take it out of resmgr's queues."""
    KILL = "kill"
    """Store KILLING, then kill it in Mesos."""
    KILL_AGAIN = "kill again"
    RETRY = "retry"
    """Start the next run if the policy grants one."""
    NEXT_RUN = "next run"


_S = TaskState
RULES: Mapping[tuple[TaskState, Aim], Action] = {
    (_S.INITIALIZED, Aim.RUN): Action.ENQUEUE,
    (_S.PENDING, Aim.RUN): Action.NOTHING,
    (_S.LAUNCHED, Aim.RUN): Action.WATCH,
    (_S.STARTING, Aim.RUN): Action.WATCH,
    (_S.RUNNING, Aim.RUN): Action.WATCH,
    (_S.KILLING, Aim.RUN): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Aim.RUN): Action.NOTHING,
    (_S.FAILED, Aim.RUN): Action.RETRY,
    (_S.LOST, Aim.RUN): Action.RETRY,
    (_S.KILLED, Aim.RUN): Action.RETRY,
    (_S.INITIALIZED, Aim.STOP): Action.WITHDRAW,
    (_S.PENDING, Aim.STOP): Action.WITHDRAW,
    (_S.LAUNCHED, Aim.STOP): Action.KILL,
    (_S.STARTING, Aim.STOP): Action.KILL,
    (_S.RUNNING, Aim.STOP): Action.KILL,
    (_S.KILLING, Aim.STOP): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Aim.STOP): Action.NOTHING,
    (_S.FAILED, Aim.STOP): Action.NOTHING,
    (_S.LOST, Aim.STOP): Action.NOTHING,
    (_S.KILLED, Aim.STOP): Action.NOTHING,
    (_S.INITIALIZED, Aim.RENEW): Action.WITHDRAW,
    (_S.PENDING, Aim.RENEW): Action.WITHDRAW,
    (_S.LAUNCHED, Aim.RENEW): Action.KILL,
    (_S.STARTING, Aim.RENEW): Action.KILL,
    (_S.RUNNING, Aim.RENEW): Action.KILL,
    (_S.KILLING, Aim.RENEW): Action.KILL_AGAIN,
    (_S.SUCCEEDED, Aim.RENEW): Action.NEXT_RUN,
    (_S.FAILED, Aim.RENEW): Action.NEXT_RUN,
    (_S.LOST, Aim.RENEW): Action.NEXT_RUN,
    (_S.KILLED, Aim.RENEW): Action.NEXT_RUN,
}
"""For the states that jobmgr stores. READY to RESERVED live in resmgr only."""

_ENDING_JOB = frozenset({JobState.KILLED, JobState.DELETED})
_ENDING_TASK = frozenset({TaskState.KILLED, TaskState.DELETED})


def aim_of(job_goal: JobState, task: TaskRuntime) -> Aim:
    """A job that shall end takes all its tasks with it, whatever their own goals."""
    if job_goal in _ENDING_JOB or task.goal in _ENDING_TASK:
        return Aim.STOP
    if task.desired_run > task.run:
        return Aim.RENEW
    return Aim.RUN

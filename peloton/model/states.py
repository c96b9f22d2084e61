"""States and kinds of jobs, tasks and hosts. Their numbers are stored, and are those of the v0 API."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal


class TaskState(IntEnum):
    """State of a run, or goal of a task."""

    UNKNOWN = 0
    INITIALIZED = 1
    PENDING = 2
    READY = 3
    PLACING = 4
    PLACED = 5
    LAUNCHING = 6
    STARTING = 7
    RUNNING = 8
    SUCCEEDED = 9
    FAILED = 10
    LOST = 11
    PREEMPTING = 12
    KILLING = 13
    KILLED = 14
    LAUNCHED = 15
    DELETED = 16
    RESERVED = 17

    terminal: bool
    """Whether a run in this state has ended; a terminal state is final."""


TERMINAL_TASK_STATES = frozenset(
    {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.LOST, TaskState.KILLED, TaskState.DELETED}
)
ON_HOST_TASK_STATES = frozenset(
    {
        TaskState.LAUNCHED,
        TaskState.STARTING,
        TaskState.RUNNING,
        TaskState.KILLING,
        TaskState.PREEMPTING,
    }
)
"""States in which Mesos has, or may have, the run."""
for _task_state in TaskState:
    _task_state.terminal = _task_state in TERMINAL_TASK_STATES
assert not TERMINAL_TASK_STATES & ON_HOST_TASK_STATES, "a run that has ended is on no host"


class JobState(IntEnum):
    """State or goal of a job."""

    UNKNOWN = 0
    INITIALIZED = 1
    PENDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    KILLED = 6
    KILLING = 7
    UNINITIALIZED = 8
    DELETED = 9

    terminal: bool
    """Whether a job in this state has ended."""


TERMINAL_JOB_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED, JobState.DELETED})
for _job_state in JobState:
    _job_state.terminal = _job_state in TERMINAL_JOB_STATES


class JobType(IntEnum):
    """Type of a job."""

    BATCH = 0
    SERVICE = 1
    DAEMON = 2


class TaskType(IntEnum):
    """The type of placement engine that places a task."""

    UNKNOWN = 0
    BATCH = 1
    STATELESS = 2
    STATEFUL = 3
    DAEMON = 4


PlacedTaskType = Literal["batch", "stateless", "stateful", "daemon"]
"""Task types that placement engines serve, as settings name them."""


class HealthState(IntEnum):
    """Result of the health checks of a run."""

    INVALID = 0
    DISABLED = 1
    UNKNOWN = 2
    HEALTHY = 3
    UNHEALTHY = 4


class TerminationReason(IntEnum):
    """Why a run ended."""

    INVALID = 0
    KILLED_ON_REQUEST = 1
    FAILED = 2
    KILLED_HOST_MAINTENANCE = 3
    PREEMPTED_RESOURCES = 4
    DEADLINE_TIMEOUT_EXCEEDED = 5
    KILLED_FOR_UPDATE = 6
    KILLED_FOR_RESTART = 7
    KILLED_FOR_SLA_AWARE_RESTART = 8


class PlacementStrategy(IntEnum):
    """Preference for the hosts of a job."""

    INVALID = 0
    PACK_HOST = 1
    SPREAD_JOB = 2


class HostState(IntEnum):
    """State or goal of a host."""

    INVALID = 0
    UNKNOWN = 1
    UP = 2
    DRAINING = 3
    DRAINED = 4
    DOWN = 5

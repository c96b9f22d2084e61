"""How available an instance of a service is: the order of updates and the SLA go by it."""

from __future__ import annotations

from enum import IntEnum

from peloton.model.states import HealthState, TaskState
from peloton.model.task import TaskRuntime

HEALTHY_STATES = frozenset({HealthState.DISABLED, HealthState.HEALTHY})
"""Health of a running instance that is available."""


class Availability(IntEnum):
    """Class of an instance. INVALID: nothing is known of it."""

    INVALID = 0
    AVAILABLE = 1
    KILLED = 2
    DELETED = 3
    UNAVAILABLE = 4


def is_serving(task: TaskRuntime) -> bool:
    """Return whether the run is RUNNING and its health checks, if any, pass."""
    return task.state is TaskState.RUNNING and task.health in HEALTHY_STATES


def availability_of(task: TaskRuntime | None) -> Availability:
    """Return the class of an instance; None stands for one without a row.

    One that is stopped only until its next run, as by an update that stops first, is UNAVAILABLE.
    """
    if task is None or task.state is TaskState.UNKNOWN:
        return Availability.INVALID
    if task.goal is TaskState.DELETED or task.state is TaskState.DELETED:
        return Availability.DELETED
    if task.desired_run > task.run:
        return Availability.UNAVAILABLE
    if task.goal is TaskState.KILLED:
        return Availability.KILLED
    return Availability.AVAILABLE if is_serving(task) else Availability.UNAVAILABLE

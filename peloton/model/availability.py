"""How available an instance of a service is: the order of updates and the SLA go by it."""

from __future__ import annotations

from enum import IntEnum

from peloton.model.states import HealthState, TaskState
from peloton.model.task import TaskRuntime

HEALTHY_STATES = (HealthState.DISABLED, HealthState.HEALTHY)
"""Health of a running instance that is available."""


class Availability(IntEnum):
    """Class of an instance. INVALID: nothing is known of it."""

    INVALID = 0
    AVAILABLE = 1
    KILLED = 2
    DELETED = 3
    UNAVAILABLE = 4


_UNKNOWN, _RUNNING, _KILLED, _DELETED = (
    TaskState.UNKNOWN,
    TaskState.RUNNING,
    TaskState.KILLED,
    TaskState.DELETED,
)
_AVAILABLE, _UNAVAILABLE = Availability.AVAILABLE, Availability.UNAVAILABLE
"""Looked up once: a member of an enumeration costs more than what is done with it here."""


def is_serving(task: TaskRuntime) -> bool:
    """Return whether the run is RUNNING and its health checks, if any, pass."""
    return task.state is _RUNNING and task.health in HEALTHY_STATES


def availability_of(task: TaskRuntime | None) -> Availability:
    """Return the class of an instance; None stands for one without a row.

    One that is stopped only until its next run, as by an update that stops first, is UNAVAILABLE.
    """
    if task is None or task.state is _UNKNOWN:
        return Availability.INVALID
    if task.goal is _DELETED or task.state is _DELETED:
        return Availability.DELETED
    if task.desired_run > task.run:
        return _UNAVAILABLE
    if task.goal is _KILLED:
        return Availability.KILLED
    return _AVAILABLE if is_serving(task) else _UNAVAILABLE

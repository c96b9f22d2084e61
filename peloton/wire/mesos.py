"""Translate statuses of Mesos into the model (docs/behaviour/tasks.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.states import TaskState
from peloton.model.system_labels import SAVED_LABEL, USED_LABEL
from peloton.model.task import TaskStatus

TASK_STATES: Mapping[int, TaskState] = {
    mesos_pb2.TASK_STAGING: TaskState.LAUNCHED,
    mesos_pb2.TASK_STARTING: TaskState.STARTING,
    mesos_pb2.TASK_RUNNING: TaskState.RUNNING,
    mesos_pb2.TASK_KILLING: TaskState.RUNNING,
    mesos_pb2.TASK_FINISHED: TaskState.SUCCEEDED,
    mesos_pb2.TASK_FAILED: TaskState.FAILED,
    mesos_pb2.TASK_ERROR: TaskState.FAILED,
    mesos_pb2.TASK_KILLED: TaskState.KILLED,
    mesos_pb2.TASK_LOST: TaskState.LOST,
    mesos_pb2.TASK_DROPPED: TaskState.LOST,
    mesos_pb2.TASK_UNREACHABLE: TaskState.LOST,
    mesos_pb2.TASK_GONE: TaskState.LOST,
    mesos_pb2.TASK_GONE_BY_OPERATOR: TaskState.LOST,
    mesos_pb2.TASK_UNKNOWN: TaskState.LOST,
}
"""Mesos' task state → Peloton's. A KILLING task still runs as far as Mesos is concerned."""

_REASONS = {number: name.removeprefix("REASON_") for name, number in mesos_pb2.TaskStatus.Reason.items()}
_NO_REASONS = ("TASK_HEALTH_CHECK_STATUS_UPDATED", "TASK_CHECK_STATUS_UPDATED")
"""What Mesos sends with a status that tells the result of a check: no reason for the state of the task."""
_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
_USED = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,9})?) ([0-9]{1,18})")
_DUPLICATE = "Task has duplicate ID"
LATEST_SECONDS = 2**63 / NANOSECONDS
"""Times beyond this are not stored."""


def reason_name(status: mesos_pb2.TaskStatus) -> str:
    """Return the reason of a status without the prefix REASON_, empty where Mesos gives none."""
    name = _REASONS[status.reason] if status.HasField("reason") else ""
    return "" if name in _NO_REASONS else name


def state_name(status: mesos_pb2.TaskStatus) -> str:
    """Return the state of a status as Mesos names it, without the prefix TASK_."""
    return mesos_pb2.TaskState.Name(status.state).removeprefix("TASK_")


def is_of_another_launch(status: mesos_pb2.TaskStatus) -> bool:
    """Return whether the status refuses a second launch of a run that goes on, under that run's id."""
    if status.reason != mesos_pb2.TaskStatus.REASON_TASK_INVALID:
        return False
    return TASK_STATES.get(status.state) is TaskState.FAILED and _DUPLICATE in status.message


def _nanoseconds(seconds: float) -> int:
    """Return a time as it is stored; 0, as where none is told, for what is no time before the year 2262.

    The status counts in any case: its state is what matters.
    """
    return round(seconds * NANOSECONDS) if 0 <= seconds < LATEST_SECONDS else 0


def task_state(wire: mesos_pb2.TaskStatus) -> TaskState:
    """Decode the state of a status alone. Raises InvalidArgument where it is unknown."""
    if not wire.HasField("state"):
        raise InvalidArgument("state", "", "a task state of Mesos 1.x")
    return TASK_STATES[wire.state]


def saved_ago(wire: mesos_pb2.TaskStatus) -> int | None:
    """Return how long before a status its run has saved its work, in nanoseconds; None: that is not told."""
    saved_at = _saved_at(wire) if wire.HasField("labels") else 0
    return max(_nanoseconds(wire.timestamp) - saved_at, 0) if saved_at else None


def task_status(wire: mesos_pb2.TaskStatus) -> TaskStatus:
    """Decode a status of Mesos; one without a uuid needs no acknowledgement.

    Raises InvalidArgument where its state is unknown.
    """
    labels = wire.HasField("labels")
    cpu_time, memory_peak = _used(wire) if labels else (0, 0)
    return TaskStatus(  # by place: names take a quarter of the time more, and each status is read thrice
        wire.task_id.value,
        task_state(wire),
        _nanoseconds(wire.timestamp),
        wire.agent_id.value,
        wire.message,
        reason_name(wire),
        wire.healthy if wire.HasField("healthy") else None,
        wire.uuid,
        _saved_at(wire) if labels else 0,
        cpu_time,
        memory_peak,
    )


def _saved_at(wire: mesos_pb2.TaskStatus) -> int:
    """Return when a run has saved its work, by a label of our own agents; 0 where that is not told."""
    told = next((label.value for label in wire.labels.labels if label.key == SAVED_LABEL), "")
    return _nanoseconds(float(told)) if _SECONDS.fullmatch(told) else 0


def _used(wire: mesos_pb2.TaskStatus) -> tuple[int, int]:
    """Return CPU time in nanoseconds and the most bytes of memory; 0 where no agent of our own tells them."""
    told = next((label.value for label in wire.labels.labels if label.key == USED_LABEL), "")
    found = _USED.fullmatch(told)
    return (_nanoseconds(float(found[1])), int(found[2])) if found else (0, 0)

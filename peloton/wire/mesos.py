"""What Mesos says of tasks, in the model's terms (behaviour 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS
from peloton.model.states import TaskState
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

_REASON_PREFIX = "REASON_"


def reason_name(status: mesos_pb2.TaskStatus) -> str:
    """The status' reason without the prefix REASON_; empty where Mesos gives none."""
    if not status.HasField("reason"):
        return ""
    return mesos_pb2.TaskStatus.Reason.Name(status.reason).removeprefix(_REASON_PREFIX)


def task_status(wire: mesos_pb2.TaskStatus) -> TaskStatus:
    """A status as Mesos sent it; one without a uuid wants no acknowledgement."""
    return TaskStatus(
        mesos_task_id=wire.task_id.value,
        state=TASK_STATES[wire.state],
        timestamp=round(wire.timestamp * NANOSECONDS),
        agent_id=wire.agent_id.value,
        message=wire.message,
        reason=reason_name(wire),
        healthy=wire.healthy if wire.HasField("healthy") else None,
        uuid=wire.uuid,
    )

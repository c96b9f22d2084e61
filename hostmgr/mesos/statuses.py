"""Translation of Mesos' statuses to the port's events."""

from __future__ import annotations

from hostmgr.core.cluster_manager.events import (
    Acknowledgement,
    SecondLaunchRefused,
    StatusEvent,
    StatusUpdate,
    UnreadableStatus,
)
from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS
from peloton.model.ids import MesosTaskId
from peloton.wire.mesos import is_of_another_launch, task_status

_RECONCILIATION = mesos_pb2.TaskStatus.REASON_RECONCILIATION


def status_from(wire: mesos_pb2.TaskStatus) -> StatusEvent:
    """Translate a status, once for all clients of the event stream."""
    if not wire.HasField("state"):
        return UnreadableStatus(Acknowledgement(wire.task_id.value, wire.agent_id.value, wire.uuid))
    if is_of_another_launch(wire):
        return SecondLaunchRefused(wire.task_id.value)
    status = task_status(wire)
    return StatusUpdate(
        status,
        unknown=wire.state == mesos_pb2.TASK_UNKNOWN,
        missing=status.state.terminal and wire.reason == _RECONCILIATION,
        wire=wire,
    )


def killed_with_framework(run: MesosTaskId, agent_id: str, framework_id: str, at: int) -> StatusEvent:
    """Return the status of a run that was killed with its framework, `at` in nanoseconds since 1970."""
    wire = mesos_pb2.TaskStatus(
        state=mesos_pb2.TASK_KILLED,
        source=mesos_pb2.TaskStatus.SOURCE_MASTER,
        reason=mesos_pb2.TaskStatus.REASON_FRAMEWORK_REMOVED,
        message=f"Framework {framework_id} removed",
        timestamp=at / NANOSECONDS,
    )
    wire.task_id.value, wire.agent_id.value = run, agent_id
    return status_from(wire)

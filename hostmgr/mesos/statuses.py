"""Translation of Mesos' statuses to the port's events."""

from __future__ import annotations

from hostmgr.backend.interface import (
    Acknowledgement,
    SecondLaunchRefused,
    StatusEvent,
    StatusUpdate,
    UnreadableStatus,
)
from mesos.v1 import mesos_pb2
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

"""Events of hostmgr's stream."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.private.eventstream import eventstream_pb2

Event = eventstream_pb2.Event


def status_event(offset: int, wire: object) -> Event:
    """Return the event of a status, which the adapter hands over as the stream carries it."""
    if not isinstance(wire, mesos_pb2.TaskStatus):
        raise TypeError(f"a status for the event stream is a mesos.v1 TaskStatus, not {type(wire).__name__}")
    return Event(offset=offset, type=Event.MESOS_TASK_STATUS, mesosTaskStatus=wire)

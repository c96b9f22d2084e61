"""Events of hostmgr's stream."""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2
from peloton.private.eventstream import eventstream_pb2


def status_event(offset: int, wire: object) -> bytes:
    """Encode the event of a status, which the adapter hands over as the stream carries it.

    The bytes are an answer of WaitForEvents with this event alone. Such answers, joined, are the answer with
    all their events, so each event is encoded once for all clients.
    """
    if not isinstance(wire, mesos_pb2.TaskStatus):
        raise TypeError(f"a status for the event stream is a mesos.v1 TaskStatus, not {type(wire).__name__}")
    answer = eventstream_pb2.WaitForEventsResponse()
    event = answer.events.add(offset=offset, type=eventstream_pb2.Event.MESOS_TASK_STATUS)
    event.mesosTaskStatus.CopyFrom(wire)
    return answer.SerializeToString()


def decoded(events: Iterable[bytes]) -> list[eventstream_pb2.Event]:
    """Decode what ``status_event`` encoded."""
    return list(eventstream_pb2.WaitForEventsResponse.FromString(b"".join(events)).events)

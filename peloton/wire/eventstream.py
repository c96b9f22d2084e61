"""Events of hostmgr's stream."""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2
from peloton.private.eventstream import eventstream_pb2

_EVENTS, _OFFSET, _TYPE, _STATUS = b"\x12", b"\x08", b"\x10\x01", b"\x1a"
"""Keys of fields of an answer and of an event, the type with its value MESOS_TASK_STATUS."""
_LAST = [bytes((number,)) for number in range(128)]
_FIRST = [bytes((number | 128,)) for number in range(128)]
"""Bytes of a number: the last one, and those before it, which say that another one follows."""


def status_event(offset: int, wire: object) -> bytes:
    """Encode the event of a status, which the adapter hands over as the stream carries it.

    The bytes are an answer of WaitForEvents with this event alone. Such answers, joined, are the answer with
    all their events, so each event is encoded once for all clients. They are put together here around the
    status: the messages of the answer and of the event would be made, and the status copied, for each one.
    """
    if not isinstance(wire, mesos_pb2.TaskStatus):
        raise TypeError(f"a status for the event stream is a mesos.v1 TaskStatus, not {type(wire).__name__}")
    status = wire.SerializeToString()
    event = b"".join((_OFFSET, _varint(offset), _TYPE, _STATUS, _varint(len(status)), status))
    return b"".join((_EVENTS, _varint(len(event)), event))


def _varint(number: int) -> bytes:
    """Encode a number that is not negative as protobuf does: seven bits in each byte, the lowest first."""
    if number < 128:
        return _LAST[number]
    return _FIRST[number & 127] + _varint(number >> 7)


def decoded(events: Iterable[bytes]) -> list[eventstream_pb2.Event]:
    """Decode what ``status_event`` encoded."""
    return list(eventstream_pb2.WaitForEventsResponse.FromString(b"".join(events)).events)

"""A Mesos that is newer than the stubs may speak of states that they do not have."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2
from peloton.errors import InvalidArgument
from peloton.mesos.codec import Encoding, codec
from peloton.mesos.session import Session
from peloton.mesos.stream import EventDecoder
from peloton.wire.mesos import task_status

Event = scheduler_pb2.Event


def update(encoding: Encoding, strange: bool) -> bytes:
    event = Event(type=Event.UPDATE)
    status = event.update.status
    status.task_id.value, status.state, status.uuid = "t", mesos_pb2.TASK_KILLING, b"u"
    body = codec(encoding).encode(event)
    known, other = (
        (b"\x10\x08", b"\x10\x3f") if encoding == "protobuf" else (b"TASK_KILLING", b"TASK_DREAMING")
    )
    assert body.count(known) == 1
    return body.replace(known, other) if strange else body


def decoded(encoding: Encoding, *bodies: bytes) -> list[Event]:
    session = Session(None)
    session.connect(0.0)
    first = Event(type=Event.SUBSCRIBED)
    first.subscribed.framework_id.value = "f"
    wire = codec(encoding)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: s\r\n\r\n"
    records = [b"%d\n%b" % (len(body), body) for body in (wire.encode(first), *bodies)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in records)
    return EventDecoder(wire, session, 1 << 20).feed(head + chunks, 1.0)


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_a_state_that_is_not_known_leaves_the_connection_and_what_follows(encoding: Encoding) -> None:
    strange, usual = decoded(encoding, update(encoding, strange=True), update(encoding, strange=False))
    assert not strange.update.status.HasField("state")
    assert strange.update.status.uuid == usual.update.status.uuid == b"u"
    assert usual.update.status.state == mesos_pb2.TASK_KILLING


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
def test_it_is_never_taken_for_another(encoding: Encoding) -> None:
    (strange,) = decoded(encoding, update(encoding, strange=True))
    with pytest.raises(InvalidArgument, match="task state of Mesos"):
        task_status(strange.update.status)

"""Events of hostmgr's stream as bytes."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.wire.eventstream import decoded, status_event


@pytest.mark.parametrize("offset", [0, 1, 127, 128, 300, 16_383, 16_384, 2**35 + 1, 2**63])
@pytest.mark.parametrize("length", [0, 90, 200, 20_000])
def test_an_event_is_what_protobuf_makes_of_it(offset: int, length: int) -> None:
    status = mesos_pb2.TaskStatus(
        task_id=mesos_pb2.TaskID(value="r"), state=mesos_pb2.TASK_RUNNING, message="m" * length
    )
    event = pb.Event(offset=offset, type=pb.Event.MESOS_TASK_STATUS, mesosTaskStatus=status)
    assert decoded([status_event(offset, status)]) == [event]
    following = status_event(offset + 1, status)
    assert [each.offset for each in decoded([status_event(offset, status), following])] == [
        offset,
        offset + 1,
    ]

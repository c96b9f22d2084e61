"""Status update streams and the link's frames."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import agent_link
from minicluster.mesos.common.status_updates import UpdateStreams

KEY = ("f", "t")


def status(state: int, uuid: bytes) -> mesos.TaskStatus:
    out = mesos.TaskStatus(state=state, uuid=uuid)  # type: ignore[arg-type]
    out.task_id.value = "t"
    return out


STARTING, RUNNING, FINISHED = (
    status(mesos.TASK_STARTING, b"1"),
    status(mesos.TASK_RUNNING, b"2"),
    status(mesos.TASK_FINISHED, b"3"),
)


def test_an_update_is_sent_after_the_previous_one_is_acknowledged() -> None:
    streams = UpdateStreams()
    assert streams.add(KEY, STARTING, 0) is STARTING
    assert streams.add(KEY, RUNNING, 0) is None
    assert streams.add(KEY, FINISHED, 0) is None
    assert streams.latest(KEY, mesos.TASK_STAGING) == mesos.TASK_FINISHED
    assert streams.acknowledge(KEY, b"2", 1) == (False, None)
    assert streams.acknowledge(KEY, b"1", 1) == (True, RUNNING)
    assert streams.acknowledge(KEY, b"1", 1) == (False, None)
    assert streams.acknowledge(KEY, b"2", 1) == (True, FINISHED)
    assert streams.acknowledge(KEY, b"3", 1) == (True, None)
    assert not streams.has(KEY)


def test_an_update_is_repeated_after_10_20_40_seconds_at_most_600() -> None:
    streams = UpdateStreams()
    streams.add(KEY, STARTING, 0)
    sent = []
    now = 0.0
    while now < 3000:
        due = streams.next_due()
        assert due is not None
        now = due
        sent += [(now, item) for _, item in streams.due(now)]
    assert [when for when, _ in sent[:5]] == [10, 30, 70, 150, 310]
    assert sent[-1][0] - sent[-2][0] == 600
    assert {item.uuid for _, item in sent} == {b"1"}


def test_an_acknowledged_update_is_not_due() -> None:
    streams = UpdateStreams()
    streams.add(KEY, STARTING, 0)
    streams.acknowledge(KEY, b"1", 5)
    assert streams.due(100) == []
    assert streams.resend() == []


def test_resending_is_by_framework() -> None:
    streams = UpdateStreams()
    streams.add(KEY, STARTING, 0)
    streams.add(("g", "t"), RUNNING, 0)
    assert streams.resend("g") == [(("g", "t"), RUNNING)]
    streams.drop_framework("g")
    assert streams.resend() == [(KEY, STARTING)]


def messages() -> list[agent_link.MasterMessage | agent_link.AgentMessage]:
    info = mesos.AgentInfo(hostname="h")
    framework = mesos.FrameworkInfo(user="u", name="n")
    task = mesos.TaskInfo(name="n")
    task.task_id.value, task.agent_id.value = "t", "a"
    known = agent_link.AgentTask("f", task, (STARTING, RUNNING), None)
    return [
        agent_link.Register(info, "1.2.3.4", "1", (framework,), (known,)),
        agent_link.Launch(framework, task),
        agent_link.Kill("f", "t", 2.5, draining=True),
        agent_link.Acknowledge("f", "t", b"\x00\xff"),
        agent_link.Update("f", RUNNING, mesos.TASK_FINISHED),
        agent_link.Ping(),
    ]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_frames_are_decoded_from_any_pieces(size: int) -> None:
    data = b"".join(map(agent_link.encode, messages()))
    decoder = agent_link.Decoder()
    out = []
    for start in range(0, len(data), size):
        out += list(decoder.feed(data[start : start + size]))
    assert out == messages()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x02{}",
        b'\x00\x00\x00\x10{"type":"Nosuch"}',
        b"\x00\x00\x00\x03abc",
    ],
)
def test_malformed_frames_are_refused(data: bytes) -> None:
    decoder = agent_link.Decoder()
    with pytest.raises(agent_link.LinkError):
        list(decoder.feed(data))

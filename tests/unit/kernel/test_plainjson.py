"""JSON of other programs: what is no JSON, or no number of ours, is refused in one way."""

from __future__ import annotations

import pytest

from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2
from peloton.errors import InvalidArgument
from peloton.membership.interface import Address
from peloton.mesos.codec import MalformedMessage, codec
from peloton.mesos.detector import announced
from peloton.model.resources import MAX_AMOUNT, milli
from peloton.model.states import TaskState
from peloton.plainjson import parse_json
from peloton.wire.mesos import task_status


def test_ordinary_documents_are_read() -> None:
    text = '{"a": [1, -2.5, 18446744073709551615, 1e3, true, null, "NaN \\u00e9"]}'
    assert parse_json(text) == {"a": [1, -2.5, 2**64 - 1, 1000.0, True, None, "NaN é"]}
    assert parse_json(b'"a\nb"', strict=False) == "a\nb"


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        "1" * 400,
        str(2**64),
        "[" * 100_000,
        "",
        '"\n"',
        b"\xff",
    ],
)
def test_all_else_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize("port", ["Infinity", "1e999", "[" * 50_000, "NaN"])
def test_addresses_in_zookeeper_that_are_none(port: str) -> None:
    master = f'{{"id": "m", "hostname": "h", "address": {{"ip": "10.0.0.1", "port": {port}}}}}'
    assert announced(master.encode()) is None
    with pytest.raises(ValueError):
        Address.from_json(f'{{"hostname": "h", "ip": "i", "http": 1, "grpc": {port}}}')


def test_half_a_character_in_an_event_of_mesos() -> None:
    event = codec("json").decode(
        b'{"type": "RESCIND", "rescind": {"offer_id": {"value": "O\\ud83d"}}, "\\ud800": 1}',
        scheduler_pb2.Event,
    )
    assert event.rescind.offer_id.value == "O?"
    whole = b'{"type": "ERROR", "error": {"message": "\\ud83d\\ude00"}}'
    assert codec("json").decode(whole, scheduler_pb2.Event).error.message == "😀"
    # An unknown type is ignored, as Mesos does with enums that are optional.
    assert not codec("json").decode(b'{"type": "\\ud800"}', scheduler_pb2.Event).HasField("type")
    with pytest.raises(MalformedMessage):
        deep = b'{"type": "UPDATE", "update": {"status": {"timestamp": "' + b"[" * 50_000 + b'"}}}'
        codec("json").decode(deep, scheduler_pb2.Event)


@pytest.mark.parametrize(
    "amount", [float("nan"), float("inf"), -float("inf"), 1e16, -1e300, MAX_AMOUNT * 1.01]
)
def test_amounts_whose_sums_would_not_be_exact(amount: float) -> None:
    assert milli(MAX_AMOUNT) == 10**15 and milli(-0.0005) == 0
    with pytest.raises(InvalidArgument, match="is not a number from -1000000000000 to 1000000000000"):
        milli(amount)


@pytest.mark.parametrize("timestamp", [float("nan"), float("inf"), -float("inf"), -1.0, 1e30, 9.3e9])
def test_the_time_of_a_status_that_is_none(timestamp: float) -> None:
    status = mesos_pb2.TaskStatus(state=mesos_pb2.TASK_RUNNING, timestamp=timestamp)
    assert (task_status(status).timestamp, task_status(status).state) == (0, TaskState.RUNNING)
    status.timestamp = 1.5
    assert task_status(status).timestamp == 1_500_000_000

"""The subscription's state machine, its deadlines and pauses, and RecordIO."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.mesos.session import RetryPauses, Session, SessionBroken, State
from peloton.recordio import MalformedStream, RecordParser


def subscribed(interval: float = 15.0) -> Session:
    session = Session(None)
    session.connect(0.0)
    session.response(200, "s1", 0.0)
    session.on_subscribed("f1", interval, "m1", 0.0)
    return session


def test_the_way_to_subscribed_and_back() -> None:
    session = Session(None)
    states = [session.state]
    assert not session.expired(1e9)
    session.connect(0.0)
    states.append(session.state)
    assert states == [State.DISCONNECTED, State.SUBSCRIBING]
    session.response(200, "s1", 0.0)
    session.on_subscribed("f1", 15.0, "m1", 0.0)
    assert (session.state, session.framework_id, session.stream_id) == (State.SUBSCRIBED, "f1", "s1")
    session.disconnect()
    assert (session.state, session.framework_id, session.stream_id) == (State.DISCONNECTED, "f1", "")


@pytest.mark.parametrize("interval", [15.0, 0.0])
def test_three_missed_heartbeats_are_the_end(interval: float) -> None:
    session = subscribed(interval)
    assert not session.expired(44.9) and session.expired(45.0)
    session.touch(40.0)
    assert not session.expired(84.9) and session.expired(85.0)


def test_a_silent_connection_expires() -> None:
    session = Session(None, connect_timeout=10)
    session.connect(0.0)
    assert not session.expired(9.9) and session.expired(10.0)


@pytest.mark.parametrize(("status", "stream_id"), [(503, "s"), (401, ""), (200, "")])
def test_an_answer_that_is_no_subscription(status: int, stream_id: str) -> None:
    session = Session(None)
    session.connect(0.0)
    with pytest.raises(SessionBroken):
        session.response(status, stream_id, 0.0)


def test_order_of_events() -> None:
    session = Session(None)
    session.connect(0.0)
    with pytest.raises(SessionBroken, match="OFFERS came before SUBSCRIBED"):
        session.on_event("OFFERS")
    session.on_subscribed("f1", 15.0, "m1", 0.0)
    session.on_event("OFFERS")
    with pytest.raises(SessionBroken, match="twice"):
        session.on_subscribed("f1", 15.0, "m1", 0.0)


def test_failures_are_counted_until_a_subscription_has_lasted() -> None:
    session = Session(None)
    for n in range(3):
        session.connect(0.0)
        session.disconnect()
        assert session.failures == n + 1
    session.connect(0.0)
    session.on_subscribed("f1", 15.0, "m1", 0.0)
    session.touch(1.0)
    session.disconnect()
    assert session.failures == 4, "two that take the subscription from each other slow down"
    session.connect(0.0)
    session.on_subscribed("f1", 15.0, "m1", 0.0)
    session.touch(15.0)
    session.disconnect()
    assert session.failures == 0


def test_a_master_that_is_not_ready_is_tried_again_within_a_second() -> None:
    session, slow = Session(None), RetryPauses(first=100, longest=1000)
    session.connect(0.0)
    with pytest.raises(SessionBroken, match="503"):
        session.response(503, "", 0.0)
    session.disconnect()
    assert session.pause(slow, jitter=1.0) == 1.0
    session.connect(0.0)
    with pytest.raises(SessionBroken, match="401"):
        session.response(401, "", 0.0)
    session.disconnect()
    assert session.pause(slow, jitter=1.0) == 400.0


@given(st.integers(1, 1000), st.floats(0, 1))
def test_an_address_where_nobody_answers_is_tried_again_within_two_seconds(
    failures: int, jitter: float
) -> None:
    session = Session(None)
    for _ in range(failures):
        session.connect(0.0)
        session.disconnect()
    assert session.pause(RetryPauses(), jitter) <= 2.0
    session.connect(0.0)
    with pytest.raises(SessionBroken):
        session.response(401, "", 0.0)
    session.disconnect()
    assert failures < 10 or session.pause(RetryPauses(), jitter) > 2.0


def test_another_master_begins_without_failures() -> None:
    session = Session(None)
    for _ in range(5):
        session.connect(0.0)
        session.disconnect()
    session.another_master()
    assert session.failures == 0


@given(st.integers(0, 1000), st.floats(0, 1))
def test_backoff_is_bounded_and_jittered(failures: int, jitter: float) -> None:
    pauses = RetryPauses(first=0.1, longest=15)
    full = min(15.0, 0.1 * 2 ** min(failures, 30))
    assert full / 2 <= pauses.after(failures, jitter) <= full


@given(st.lists(st.binary(max_size=30), max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=50))
def test_records_survive_any_cut(records: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(b"%d\n%b" % (len(record), record) for record in records)
    parser, found = RecordParser(), []
    while stream:
        for size in sizes:
            found += parser.feed(stream[:size])
            stream = stream[size:]
    assert found == records and parser.between_records


@pytest.mark.parametrize("data", [b"x\n", b"-1\n", b"12345678901", b"12a", b"\n", b" 5\nhello", b"101\n"])
def test_malformed_lengths(data: bytes) -> None:
    with pytest.raises(MalformedStream):
        RecordParser(max_record_bytes=100).feed(data)


def test_a_record_that_is_too_long_names_the_setting() -> None:
    """The first offers of a very large cluster come in one record."""
    with pytest.raises(MalformedStream, match=r"101 bytes is over the limit of 100 \(mesos.max_record_bytes"):
        RecordParser(max_record_bytes=100).feed(b"101\n")


def test_a_record_under_way_is_not_the_end() -> None:
    parser = RecordParser()
    assert parser.feed(b"5\nhel") == [] and not parser.between_records
    assert parser.feed(b"lo3") == [b"hello"] and not parser.between_records

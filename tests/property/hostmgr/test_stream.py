"""Bytes that are no event stream end in one of the errors that the driver recovers from, nothing else."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from peloton.mesos.codec import MalformedMessage, codec
from peloton.mesos.http import BrokenHttp
from peloton.mesos.session import Session, SessionBroken
from peloton.mesos.stream import Event, EventDecoder, Redirected, SessionRefused
from peloton.recordio import MalformedStream

EXPECTED = (BrokenHttp, MalformedMessage, MalformedStream, Redirected, SessionBroken, SessionRefused)


def good() -> bytes:
    subscribed = Event(type=Event.SUBSCRIBED)
    subscribed.subscribed.framework_id.value = "f-0000"
    offers = Event(type=Event.OFFERS)
    offer = offers.offers.offers.add(hostname="h")
    offer.id.value, offer.agent_id.value, offer.framework_id.value = "O1", "S1", "f-0000"
    stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: s\r\n\r\n"
    for event in (subscribed, offers, Event(type=Event.HEARTBEAT)):
        body = event.SerializeToString()
        record = b"%d\n%b" % (len(body), body)
        stream += b"%x\r\n%b\r\n" % (len(record), record)
    return stream


GOOD = good()


def feed(stream: bytes, size: int, encoding: str) -> int:
    """How many offers came before an error, or before the bytes were over."""
    session = Session(None)
    session.connect(0.0)
    decoder = EventDecoder(codec("json" if encoding == "json" else "protobuf"), session, 4096)
    count = 0
    try:
        for start in range(0, len(stream), size):
            events = decoder.feed(stream[start : start + size], 0.0)
            count += sum(event.type == Event.OFFERS for event in events)
    except EXPECTED:
        return count
    return count


def test_the_good_stream_is_good() -> None:
    assert feed(GOOD, 5, "protobuf") == 1


@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.binary(max_size=4)), min_size=1, max_size=4),
    st.integers(1, 64),
    st.sampled_from(["json", "protobuf"]),
)
@example(damage=[(82, b"\x80")], size=1, encoding="protobuf").via("text that is not UTF-8")
def test_damaged_streams(damage: list[tuple[int, bytes]], size: int, encoding: str) -> None:
    stream = GOOD
    for at, bytes_ in damage:
        stream = stream[:at] + bytes_ + stream[at + 1 :]
    assert feed(stream, size, encoding) <= 1


@given(st.binary(max_size=300), st.integers(1, 64))
def test_any_bytes(stream: bytes, size: int) -> None:
    assert feed(stream, size, "protobuf") == 0

"""What a real Mesos sent, through the driver's decoder, codec and session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostmgr.mesos.translate import ResourceTemplates, offer_from
from mesos.v1.scheduler import scheduler_pb2
from peloton.mesos.codec import codec
from peloton.mesos.http import BrokenHttp
from peloton.mesos.session import Session, SessionBroken, State
from peloton.mesos.stream import Event, EventDecoder, Redirected, SessionRefused
from peloton.model.states import TaskState
from peloton.wire.hosts import labels_from
from peloton.wire.mesos import task_status
from tests.contract.mesos_driver import recordings

pytestmark = recordings.needed
MAX_RECORD = 1 << 20


def connected() -> Session:
    session = Session(None)
    session.connect(0.0)
    return session


def decoder(session: Session, encoding: str) -> EventDecoder:
    return EventDecoder(codec("json" if encoding == "json" else "protobuf"), session, MAX_RECORD)


def told(scenario: str, pieces: list[bytes]) -> tuple[Session, list[Event]]:
    """The session and the events after these reads."""
    session = connected()
    machine = decoder(session, recordings.events(scenario)[0]["encoding"])
    return session, [event for piece in pieces for event in machine.feed(piece, 1.0)]


@pytest.mark.parametrize(
    "scenario",
    ["01-subscribe", "01-subscribe-protobuf", "01-subscribe-small-reads", "02-launch", "02-launch-protobuf"],
)
def test_the_stream_as_it_was_read(scenario: str) -> None:
    session, events = told(scenario, list(recordings.pieces(scenario)))
    recorded = recordings.events(scenario)
    assert session.state is State.SUBSCRIBED
    assert session.stream_id and session.framework_id and session.framework_id.endswith("-0000")
    expected = [line["type"] for line in recorded if line["type"] not in ("SUBSCRIBED", "HEARTBEAT")]
    assert [Event.Type.Name(event.type) for event in events] == expected


@pytest.mark.parametrize("size", [1, 7, 61, 100_000])
def test_reads_of_any_size_give_the_same(size: int) -> None:
    raw = b"".join(recordings.pieces("02-launch-protobuf"))
    _, whole = told("02-launch-protobuf", [raw])
    _, cut = told("02-launch-protobuf", [raw[i : i + size] for i in range(0, len(raw), size)])
    assert cut == whole and len(whole) > 5


def test_json_and_protobuf_say_the_same() -> None:
    for line in recordings.events("02-launch-protobuf"):
        as_protobuf = codec("protobuf").decode(recordings.body_of(line), Event)
        as_json = codec("json").decode(json.dumps(line["decoded"]).encode(), Event)
        assert as_json == as_protobuf, line["type"]


@pytest.mark.parametrize("scenario", [name for name in recordings.scenarios() if recordings.events(name)])
def test_every_recorded_event_is_understood(scenario: str) -> None:
    for line in recordings.events(scenario):
        event = codec(line["encoding"]).decode(recordings.body_of(line), Event)
        assert Event.Type.Name(event.type) == line["type"]
        if event.type == Event.UPDATE:
            assert task_status(event.update.status).state is not TaskState.UNKNOWN


def test_a_stream_that_is_cut_within_a_record_is_an_error() -> None:
    session = connected()
    machine = decoder(session, "json")
    raw = b"".join(recordings.pieces("01-subscribe"))
    machine.feed(raw[:2000], 1.0)
    with pytest.raises(BrokenHttp, match="within a record"):
        machine.feed(b"", 2.0)


def test_refused_framework_is_an_error_event_in_a_good_stream() -> None:
    lines = recordings.lines("08-framework-failover")
    errors = [line for line in lines if line["kind"] == "event" and line["type"] == "ERROR"]
    removed = [line for line in errors if "removed" in line["body"]["error"]["message"]]
    assert removed, "the recording has a framework that was removed"
    session = Session("gone-0000")
    session.connect(0.0)
    session.response(200, "stream", 0.0)
    machine = decoder(session, "json")
    body = recordings.body_of(removed[0])
    record = b"%d\n%b" % (len(body), body)
    answer = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: s\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    )
    with pytest.raises(SessionRefused) as caught:
        machine.feed(answer % (len(record), record), 0.0)
    assert session.on_error(caught.value.message)
    assert session.framework_id is None


def test_redirect_to_the_leader() -> None:
    redirects = [
        line
        for line in recordings.lines("09-master-failover-zk")
        if line["kind"] == "reply" and line.get("status") == 307 and line["path"] == "/api/v1/scheduler"
    ]
    assert redirects
    head = "HTTP/1.1 307 Temporary Redirect\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in redirects[0]["headers"].items()
    )
    with pytest.raises(Redirected) as caught:
        decoder(connected(), "json").feed(head.encode() + b"\r\n", 0.0)
    assert (caught.value.to.host, caught.value.to.port) == ("master-1", 5050)


def test_a_refusal_ends_the_try() -> None:
    with pytest.raises(SessionBroken, match="503"):
        decoder(connected(), "json").feed(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 17\r\n\r\nNo leader elected", 0.0
        )


@pytest.mark.parametrize("scenario", ["01-subscribe", "01-subscribe-refinement"])
def test_offers_of_both_forms_mean_the_same(scenario: str) -> None:
    """agent-1 has cpus:3;cpus(peloton):1;mem:3584;mem(peloton):512;disk:10240;ports:[31000-32000]."""
    offers = [
        offer
        for line in recordings.events(scenario)
        for offer in codec("json").decode(recordings.body_of(line), Event).offers.offers
    ]
    offer = offer_from(next(each for each in offers if each.hostname == "agent-1"), ResourceTemplates())
    sums: dict[tuple[str, bool], int] = {}
    for entry in offer.entries:
        sums[entry.name, entry.reserved] = sums.get((entry.name, entry.reserved), 0) + entry.amount
    assert sums["cpus", False] == 3000 and sums["cpus", True] == 1000
    assert sums["mem", False] == 3_584_000 and sums["mem", True] == 512_000
    assert next(entry.ranges for entry in offer.entries if entry.name == "ports") == ((31000, 32000),)


def test_attributes_become_labels() -> None:
    offer = next(
        offer
        for line in recordings.events("01-subscribe")
        for offer in codec("json").decode(recordings.body_of(line), Event).offers.offers
        if offer.hostname == "agent-1"
    )
    labels = labels_from(offer.attributes)
    assert ("rack", "r1") in labels
    assert ("level", "10.000000") in labels
    assert {value for name, value in labels if name == "spans"} == {"1000-2000", "3000-4000"}


def holds(whole: Any, part: Any) -> bool:
    """Whether `whole` has all that `part` has; an empty list may be left out."""
    if isinstance(part, dict):
        return all(value == [] or (key in whole and holds(whole[key], value)) for key, value in part.items())
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(holds, whole, part))
    return bool(whole == part)


def test_calls_are_what_mesos_took() -> None:
    """Each recorded call is read and written back without loss. Defaults may be written out."""
    wire = codec("json")
    seen = set()
    for scenario in ("02-launch", "03-kill", "05-reconcile"):
        for line in recordings.lines(scenario):
            if line["kind"] == "request" and line.get("path") == "/api/v1/scheduler":
                call = wire.decode(recordings.body_of(line), scheduler_pb2.Call)
                text = wire.encode(call)
                assert wire.encode(wire.decode(text, scheduler_pb2.Call)) == text
                assert holds(json.loads(text), json.loads(recordings.body_of(line)))
                seen.add(scheduler_pb2.Call.Type.Name(call.type))
    assert {"SUBSCRIBE", "ACCEPT", "ACKNOWLEDGE", "KILL", "RECONCILE"} <= seen

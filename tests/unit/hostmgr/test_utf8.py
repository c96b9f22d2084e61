"""Strings that are no UTF-8, as executors and agents of others may send them."""

from __future__ import annotations

from typing import TypeVar

import pytest
from google.protobuf.message import Message

from hostmgr.mesos.translate import agent_from
from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.mesos.codec import MalformedMessage, codec
from peloton.mesos.session import Session
from peloton.mesos.stream import Event, EventDecoder, SessionRefused
from peloton.mesos.utf8 import replace_invalid_agent_text
from peloton.wire import eventstream
from tests.unit.hostmgr.test_manager import Fixture

M = TypeVar("M", bound=Message)
PLACE, CUT = b"(here)", b"caf\xc3"
READ = "caf\N{REPLACEMENT CHARACTER}"
HEAD = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMesos-Stream-Id: s\r\n"
    b"Content-Type: application/x-protobuf\r\n\r\n"
)


def with_invalid_utf8(message: Message) -> bytes:
    """With text cut within a character, of the same length, in place of `(here)`."""
    return message.SerializeToString().replace(PLACE, CUT.rjust(len(PLACE), b"!"))


def decoded(*events: Event) -> list[Event]:
    """What the decoder makes of them after a SUBSCRIBED."""
    first = Event(type=Event.SUBSCRIBED)
    first.subscribed.framework_id.value = "f"
    return fed(first.SerializeToString(), *map(with_invalid_utf8, events))


def fed(*bodies: bytes) -> list[Event]:
    session = Session(None)
    session.connect(0.0)
    records = [b"%d\n%b" % (len(body), body) for body in bodies]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in records)
    return EventDecoder(codec("protobuf"), session, 1 << 20).feed(HEAD + chunks, 1.0)


async def test_a_message_that_was_cut_within_a_character() -> None:
    update = Event(type=Event.UPDATE)
    update.update.status.task_id.value, update.update.status.message = "t", PLACE.decode()
    update.update.status.state = mesos_pb2.TASK_FAILED
    it = Fixture()
    await it.subscribe()
    it.backend.on_events(decoded(update))
    (passed,) = it.manager.status_updates.ring.read(0, 10)
    (event,) = eventstream.decoded([passed.event.encoded])
    assert event.mesosTaskStatus.message == f"!!{READ}"


def test_a_subscription_with_damaged_ids_is_refused() -> None:
    """Mesos makes them of ASCII: the stream is broken."""
    first = Event(type=Event.SUBSCRIBED)
    first.subscribed.framework_id.value = PLACE.decode()
    with pytest.raises(MalformedMessage, match="ids that are not UTF-8"):
        fed(with_invalid_utf8(first))


async def test_an_offer_with_attributes_in_another_encoding() -> None:
    offers = Event(type=Event.OFFERS)
    offer = offers.offers.offers.add(hostname=PLACE.decode())
    offer.id.value, offer.agent_id.value, offer.framework_id.value = "O1", "S0", "f"
    text = mesos_pb2.Value.Text(value=PLACE.decode())
    offer.attributes.add(name="rack", type=mesos_pb2.Value.TEXT, text=text)
    offer.attributes.add(name=PLACE.decode(), type=mesos_pb2.Value.TEXT, text=mesos_pb2.Value.Text(value="r"))
    it = Fixture()
    await it.subscribe()
    it.backend.on_events(decoded(offers))
    (found,) = list(it.manager.hosts.offers)
    assert found.hostname == f"!!{READ}"
    assert sorted(found.labels) == [(f"!!{READ}", "r"), ("rack", f"!!{READ}")]


def test_an_error_ends_the_subscription_whatever_its_text() -> None:
    error = Event(type=Event.ERROR)
    error.error.message = PLACE.decode()
    with pytest.raises(SessionRefused) as caught:
        decoded(error)
    assert Session("f").on_error(caught.value.message) is False


def test_an_agent_with_attributes_in_another_encoding() -> None:
    answer = master_pb2.Response.GetAgents()
    agent = answer.agents.add(active=True, version="1")
    agent.agent_info.hostname = "h"
    text = mesos_pb2.Value.Text(value=PLACE.decode())
    agent.agent_info.attributes.add(name="rack", type=mesos_pb2.Value.TEXT, text=text)
    items = mesos_pb2.Value.Set(item=["ssd", PLACE.decode()])
    agent.agent_info.attributes.add(name="disks", type=mesos_pb2.Value.SET, set=items)
    found = master_pb2.Response.GetAgents.FromString(with_invalid_utf8(answer))
    replace_invalid_agent_text(found.agents)
    labels = (("rack", f"!!{READ}"), ("disks", "ssd"), ("disks", f"!!{READ}"))
    assert agent_from(found.agents[0], "peloton").labels == labels

"""Replacement of text from Mesos that is not UTF-8.

Mesos does not check its strings: an executor may cut a message within a character, and an agent may have
attributes in another encoding. Protobuf returns such strings as bytes, which no other code expects. Only
strings that Mesos does not write itself are replaced. Its own are ASCII: where the ids of a subscription are
not, the stream is damaged.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import Message

from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from mesos.v1.scheduler import scheduler_pb2

Event = scheduler_pb2.Event


def replace_invalid_text(event: Event) -> None:
    """Replace invalid bytes in the texts of an event by �, in place, but for the attributes of offers.

    Those are examined where they are translated, which is once for all offers that have the same ones.
    """
    if event.type == Event.UPDATE:
        _repair(event.update.status, "message")
    elif event.type == Event.OFFERS:
        for offer in event.offers.offers:
            if isinstance(offer.hostname, bytes):
                _repair(offer, "hostname")
    elif event.type == Event.ERROR:
        _repair(event.error, "message")


def has_valid_ids(subscribed: Event.Subscribed) -> bool:
    """Return whether the ids of a subscription are UTF-8."""
    return _is_valid(subscribed.framework_id, "value") and _is_valid(subscribed.master_info, "id")


def replace_invalid_agent_text(agents: Iterable[master_pb2.Response.GetAgents.Agent]) -> None:
    """Replace invalid bytes in the texts of agents by �, in place."""
    for agent in agents:
        _repair(agent.agent_info, "hostname")
        replace_invalid_attributes(agent.agent_info.attributes)


def replace_invalid_attributes(attributes: Iterable[mesos_pb2.Attribute]) -> None:
    """Replace invalid bytes in the texts of attributes by �, in place."""
    for each in attributes:
        _repair(each, "name")
        if each.type == mesos_pb2.Value.TEXT:
            _repair(each.text, "value")
        elif each.type == mesos_pb2.Value.SET:
            items = [_read(item) for item in each.set.item]
            if items != list(each.set.item):
                each.set.item[:] = items


def _is_valid(message: Message, name: str) -> bool:
    # Compiled code would take the attribute for a text, whatever it is.
    value: object = getattr(message, name)
    return not isinstance(value, bytes)


def _repair(message: Message, name: str) -> None:
    value: object = getattr(message, name)
    if isinstance(value, bytes):
        setattr(message, name, _read(value))


def _read(text: object) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

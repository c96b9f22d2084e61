"""Text from Mesos that is no UTF-8.

Mesos does not check its strings: an executor may cut a message within a character, an agent may have been
started with attributes in another encoding. Protobuf gives such strings as bytes, which nobody after this
expects. Only those that others than Mesos write are looked at: its own are ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import Message

from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from mesos.v1.scheduler import scheduler_pb2

Event = scheduler_pb2.Event


def mend_event(event: Event) -> None:
    """Replace what cannot be read by �, in place."""
    if event.type == Event.UPDATE:
        _mend(event.update.status, "message")
    elif event.type == Event.OFFERS:
        for offer in event.offers.offers:
            _mend(offer, "hostname")
            _mend_attributes(offer.attributes)
    elif event.type == Event.ERROR:
        _mend(event.error, "message")


def mend_agents(agents: Iterable[master_pb2.Response.GetAgents.Agent]) -> None:
    """Replace what cannot be read by �, in place."""
    for agent in agents:
        _mend(agent.agent_info, "hostname")
        _mend_attributes(agent.agent_info.attributes)


def _mend_attributes(attributes: Iterable[mesos_pb2.Attribute]) -> None:
    for each in attributes:
        _mend(each, "name")
        if each.type == mesos_pb2.Value.TEXT:
            _mend(each.text, "value")


def _mend(message: Message, name: str) -> None:
    value: object = getattr(message, name)
    if isinstance(value, bytes):
        setattr(message, name, value.decode("utf-8", "replace"))

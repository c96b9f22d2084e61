"""Offers, agents and resources as the internal API of hosts carries them: in Mesos' messages."""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.api.v0 import peloton_pb2
from peloton.model.constraint import Label
from peloton.model.resources import MILLI, Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2

RESOURCE_NAMES = ("cpus", "mem", "disk", "gpus")
"""Mesos' names of the kinds, in the order of `peloton.model.resources.KINDS`."""
Agent = master_pb2.Response.GetAgents.Agent
Resource = mesos_pb2.Resource
Attribute = mesos_pb2.Attribute


def claim_to(hostname: str, agent_id: str, claim_id: str) -> hostsvc_pb2.HostOffer:
    """Return what names a claimed host in a release."""
    return hostsvc_pb2.HostOffer(
        hostname=hostname,
        agentId=mesos_pb2.AgentID(value=agent_id),
        id=peloton_pb2.HostOfferID(value=claim_id),
    )


def offers_to(wires: Iterable[object]) -> list[mesos_pb2.Offer]:
    """Return the messages of offers, as the adapter keeps them."""
    return [wire for wire in wires if isinstance(wire, mesos_pb2.Offer)]


def agents_to(wires: Iterable[object]) -> list[Agent]:
    """Return the messages of agents, as the adapter keeps them."""
    return [wire for wire in wires if isinstance(wire, Agent)]


def resources_to(amount: Resources, slack_cpu: int = 0) -> list[mesos_pb2.Resource]:
    """Return one entry for each kind that is not zero, and one for revocable CPU."""
    amounts = zip(RESOURCE_NAMES, amount.values(), strict=True)
    entries = [scalar(name, value) for name, value in amounts if value > 0]
    if slack_cpu > 0:
        entries.append(scalar(RESOURCE_NAMES[0], slack_cpu))
        entries[-1].revocable.SetInParent()
    return entries


def scalar(name: str, amount: int) -> mesos_pb2.Resource:
    """Return a scalar resource; `amount` is in thousandths."""
    return mesos_pb2.Resource(
        name=name, type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=amount / MILLI)
    )


def with_attribute(own: Iterable[Attribute], name: str, text: str) -> list[Attribute]:
    """Return attributes of which the one of that name has exactly this text."""
    given = Attribute(name=name, type=mesos_pb2.Value.TEXT, text=mesos_pb2.Value.Text(value=text))
    return [*(each for each in own if each.name != name), given]


def volume_resource(volume_id: str) -> mesos_pb2.Resource:
    """Return the resource that names a persistent volume."""
    resource = mesos_pb2.Resource(name="disk", type=mesos_pb2.Value.SCALAR)
    resource.disk.persistence.id = volume_id
    return resource


def labels_from(attributes: Iterable[mesos_pb2.Attribute]) -> tuple[Label, ...]:
    """Return the host labels for an agent's attributes (docs/behaviour/placement.md).

    A TEXT is used as it is and a SCALAR with six decimals. Each item of a SET and each range of RANGES, as
    `first-last`, is a label of its own.
    """
    labels: list[Label] = []
    for each in attributes:
        if each.type == mesos_pb2.Value.TEXT:
            labels.append((each.name, each.text.value))
        elif each.type == mesos_pb2.Value.SCALAR:
            labels.append((each.name, f"{each.scalar.value:.6f}"))
        elif each.type == mesos_pb2.Value.SET:
            labels += [(each.name, item) for item in each.set.item]
        elif each.type == mesos_pb2.Value.RANGES:
            labels += [(each.name, f"{part.begin}-{part.end}") for part in each.ranges.range]
    return tuple(labels)

"""Offers, agents and resources as the internal API of hosts carries them: in Mesos' messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.api.v0 import peloton_pb2
from peloton.model.constraint import Label
from peloton.model.resources import MILLI, Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.feasibility import LAUNCHES
from peloton.wire.fields import field, key

RESOURCE_NAMES = ("cpus", "mem", "disk", "gpus")
"""Mesos' names of the kinds, in the order of `peloton.model.resources.KINDS`."""
Agent = master_pb2.Response.GetAgents.Agent
Resource = mesos_pb2.Resource
Attribute = mesos_pb2.Attribute
Encoded = tuple[bytes, ...]
"""Messages, encoded: what many offers have in common is the same object in all."""
MAX_SHARED = 50_000
MAX_HOSTS = 100_000


_HOST_OFFERS = key(hostsvc_pb2.AcquireHostOffersResponse.HOSTOFFERS_FIELD_NUMBER)
_ID = key(hostsvc_pb2.HostOffer.ID_FIELD_NUMBER)
_ID_VALUE = key(peloton_pb2.HostOfferID.VALUE_FIELD_NUMBER)


def claim_to(hostname: str, agent_id: str, claim_id: str) -> hostsvc_pb2.HostOffer:
    """Return what names a claimed host in a release."""
    return hostsvc_pb2.HostOffer(
        hostname=hostname,
        agentId=mesos_pb2.AgentID(value=agent_id),
        id=peloton_pb2.HostOfferID(value=claim_id),
    )


def host_offer_to(
    hostname: str,
    agent_id: str,
    claim_id: str,
    resources: Iterable[Encoded],
    attributes: Encoded,
    added: tuple[str, str] | tuple[()],
    launches: int,
    revocable: bool,
) -> bytes:
    """Encode a claimed host.

    `resources` are those of each of its offers, revocable ones are left out without `revocable`; `launches`
    is how many tasks may be launched there; `added` is a further attribute, name and value. The parts that
    hosts share are encoded once: fields that are encoded apart and joined are one message.
    """
    return b"".join(
        [
            _host(hostname, agent_id),
            _id(claim_id),
            *[_resources(each, revocable) for each in resources],
            _launches(launches),
            _attributes(attributes, added),
        ]
    )


def _id(claim_id: str) -> bytes:
    value = claim_id.encode()
    return _UUID + value if len(value) == _UUID_LENGTH else field(_ID, field(_ID_VALUE, value))


@lru_cache(MAX_HOSTS)
def _host(hostname: str, agent_id: str) -> bytes:
    return hostsvc_pb2.HostOffer(
        hostname=hostname, agentId=mesos_pb2.AgentID(value=agent_id)
    ).SerializeToString()


@lru_cache(MAX_SHARED)
def _resources(resources: Encoded, revocable: bool) -> bytes:
    wires = map(Resource.FromString, resources)
    shown = [each for each in wires if revocable or not each.HasField("revocable")]
    return hostsvc_pb2.HostOffer(resources=shown).SerializeToString()


@lru_cache(MAX_SHARED)
def _attributes(attributes: Encoded, added: tuple[str, str] | tuple[()]) -> bytes:
    own = map(Attribute.FromString, attributes)
    shown = with_attribute(own, *added) if added else own
    return hostsvc_pb2.HostOffer(attributes=shown).SerializeToString()


@lru_cache
def _launches(count: int) -> bytes:
    return hostsvc_pb2.HostOffer(resources=[scalar(LAUNCHES, count * MILLI)]).SerializeToString()


def acquired_to(offers: Iterable[bytes], counts: Mapping[str, int], held: Iterable[str] = ()) -> bytes:
    """Encode the answer of AcquireHostOffers, with claimed hosts that are encoded already.

    `held` says for whom hosts are held that were passed over for it.
    """
    answer = hostsvc_pb2.AcquireHostOffersResponse(filterResultCounts=counts, held=held)
    return b"".join((answer.SerializeToString(), *[field(_HOST_OFFERS, each) for each in offers]))


_UUID_LENGTH = 36
_UUID = field(_ID, field(_ID_VALUE, bytes(_UUID_LENGTH)))[:-_UUID_LENGTH]
"""What stands before the text of an id that is a UUID, as those of claims are."""


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

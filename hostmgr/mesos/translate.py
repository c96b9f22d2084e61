"""Translation of offers, agents and resources between messages of Mesos and values of the core."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hostmgr.core.state.columns import Agent, PortRanges
from hostmgr.core.state.offers import CPU, PORTS, SCALARS, Entry, Free, Offer, Taken, free_of
from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.mesos.utf8 import replace_invalid_attributes
from peloton.model.constraint import Label
from peloton.model.resources import KINDS, MILLI, ZERO, Resources, milli
from peloton.wire.hosts import labels_from

UNRESERVED = "*"
KIND_OF = dict(zip(SCALARS, KINDS, strict=True))
"""Name of a resource in Mesos → Peloton's name of the kind."""


MAX_KNOWN = 50_000
"""Most translations of each kind that are remembered; then all are forgotten."""

Encoded = tuple[bytes, ...]


class ResourceTemplates:
    """Number the resource entries of Mesos without their amounts, and remember what offers contain."""

    def __init__(self) -> None:
        self._common: dict[tuple[str, str, str, bool], int] = {}
        self._numbers: dict[bytes, int] = {}
        self._templates: list[mesos_pb2.Resource] = []
        self._entries: dict[bytes, Entry | None] = {}
        self._contents: dict[Encoded, tuple[Encoded, tuple[Entry, ...], Free]] = {}
        self._labels: dict[Encoded, tuple[Encoded, tuple[Label, ...]]] = {}

    def content(self, resources: Iterable[mesos_pb2.Resource]) -> tuple[Encoded, tuple[Entry, ...], Free]:
        """Return the resources of an offer: encoded, as entries, and summed up."""
        key = tuple([each.SerializeToString() for each in resources])
        known = self._contents.get(key)
        if known is None:
            pairs = zip(key, resources, strict=True)
            found = (self._entry(encoded, each) for encoded, each in pairs)
            entries = tuple(entry for entry in found if entry is not None)
            _make_room(self._contents)
            known = self._contents[key] = key, entries, free_of(entries)
        return known

    def labels(self, attributes: Iterable[mesos_pb2.Attribute]) -> tuple[Encoded, tuple[Label, ...]]:
        """Return the attributes of an offer: encoded, and as labels; replace text that is not UTF-8."""
        key = tuple([each.SerializeToString() for each in attributes])
        known = self._labels.get(key)
        if known is None:
            replace_invalid_attributes(attributes)
            valid = tuple([each.SerializeToString() for each in attributes])
            _make_room(self._labels)
            known = self._labels[key] = valid, labels_from(attributes)
        if known[0] != key:
            replace_invalid_attributes(attributes)
        return known

    def _entry(self, encoded: bytes, resource: mesos_pb2.Resource) -> Entry | None:
        """Translate a resource; None for one that tasks cannot take."""
        if encoded not in self._entries:
            _make_room(self._entries)
            self._entries[encoded] = _entry(resource, self) if _countable(resource) else None
        return self._entries[encoded]

    def number(self, resource: mesos_pb2.Resource) -> int:
        """Return the number of a resource's template. Most differ in few fields, which are compared first."""
        other = resource.reservations or resource.HasField("reservation") or resource.HasField("provider_id")
        if other or resource.HasField("disk"):
            return self._whole(resource)
        key = (resource.name, resource.role, resource.allocation_info.role, resource.HasField("revocable"))
        number = self._common.get(key)
        if number is None:
            number = self._common[key] = self._whole(resource)
        return number

    def _whole(self, resource: mesos_pb2.Resource) -> int:
        template = mesos_pb2.Resource()
        template.CopyFrom(resource)
        template.ClearField("scalar")
        template.ClearField("ranges")
        key = template.SerializeToString(deterministic=True)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._templates)
            self._templates.append(template)
        return number

    def template(self, number: int) -> mesos_pb2.Resource:
        """Return the resource of a number, without an amount; it must not be changed."""
        return self._templates[number]

    def resource(self, taken: Taken) -> mesos_pb2.Resource:
        """Return a resource with the amount that a task takes."""
        resource = mesos_pb2.Resource()
        resource.CopyFrom(self._templates[taken.template])
        if taken.ranges:
            for first, last in taken.ranges:
                resource.ranges.range.add(begin=first, end=last)
        else:
            resource.scalar.value = taken.amount / MILLI
        return resource


def _make_room(known: dict[Any, Any]) -> None:
    if len(known) >= MAX_KNOWN:
        known.clear()


def reserved(resource: mesos_pb2.Resource) -> bool:
    """Return whether a resource is reserved, in the old format (`role`) or the new one (`reservations`)."""
    return bool(resource.reservations) or resource.role not in ("", UNRESERVED)


def revocable(resource: mesos_pb2.Resource) -> bool:
    """Return whether a resource is revocable."""
    return resource.HasField("revocable")


def _countable(resource: mesos_pb2.Resource) -> bool:
    """Return whether tasks can take it: it is of a known kind and not shared; of disks, a volume or plain."""
    if resource.HasField("shared") or (resource.HasField("disk") and not volume_id(resource)):
        return False
    return resource.name in SCALARS or resource.name == PORTS


def volume_id(resource: mesos_pb2.Resource) -> str:
    """Return the id of a persistent volume; empty for anything else."""
    return resource.disk.persistence.id if resource.HasField("disk") else ""


def offer_from(wire: mesos_pb2.Offer, templates: ResourceTemplates) -> Offer:
    """Translate an offer. What many offers have in common is translated once."""
    resources, entries, sums = templates.content(wire.resources)
    attributes, labels = templates.labels(wire.attributes)
    return Offer(
        wire.id.value, wire.agent_id.value, wire.hostname, entries, labels, wire, sums, resources, attributes
    )


def address_of(agent: master_pb2.Response.GetAgents.Agent) -> str:
    """Return the IP address in the agent's pid, `slave(1)@<ip>:<port>`; empty where there is none."""
    return agent.pid.rpartition("@")[2].rpartition(":")[0]


def entries_of(resources: Iterable[mesos_pb2.Resource], templates: ResourceTemplates) -> list[Entry]:
    """Translate the resources that tasks can take."""
    return [_entry(resource, templates) for resource in resources if _countable(resource)]


def _entry(resource: mesos_pb2.Resource, templates: ResourceTemplates) -> Entry:
    return Entry(
        name=resource.name,
        template=templates.number(resource),
        reserved=reserved(resource),
        revocable=revocable(resource),
        amount=milli(resource.scalar.value),
        ranges=tuple((each.begin, each.end) for each in resource.ranges.range),
        volume=volume_id(resource),
    )


def sums(resources: Iterable[mesos_pb2.Resource]) -> tuple[Resources, int]:
    """Return the sums: normal resources, and revocable CPU."""
    amounts = dict.fromkeys(SCALARS, 0)
    slack_cpu = 0
    for resource in resources:
        if resource.name not in amounts:
            continue
        if not revocable(resource):
            amounts[resource.name] += milli(resource.scalar.value)
        elif resource.name == CPU:
            slack_cpu += milli(resource.scalar.value)
    return Resources(*amounts.values()), slack_cpu


def ports_of(resources: Iterable[mesos_pb2.Resource]) -> PortRanges | None:
    """Return the ports among resources, as ranges with both ends inside; None where none are listed."""
    listed = [each for each in resources if each.name == PORTS]
    ranges = (part for each in listed for part in each.ranges.range)
    return tuple(sorted((part.begin, part.end) for part in ranges)) if listed else None


class AgentTranslator:
    """Translate agents. Resources and attributes that many agents have in common are translated once."""

    def __init__(self, role: str) -> None:
        """Count only resources allocated to `role` as allocated."""
        self._role = role
        self._totals: dict[Encoded, tuple[Resources, int, frozenset[str], PortRanges | None]] = {}
        self._labels: dict[Encoded, tuple[Label, ...]] = {}

    def agent(self, wire: master_pb2.Response.GetAgents.Agent) -> Agent:
        """Translate an agent."""
        info = wire.agent_info
        total, slack_cpu, volumes, ports = self._total(wire.total_resources)
        allocated, allocated_slack_cpu = ZERO, 0
        if wire.allocated_resources:
            ours = [
                each for each in wire.allocated_resources if each.allocation_info.role in ("", self._role)
            ]
            allocated, allocated_slack_cpu = sums(ours)
        return Agent(
            info.id.value,
            info.hostname,
            self._labels_of(info.attributes),
            total,
            slack_cpu,
            allocated,
            allocated_slack_cpu,
            address_of(wire),
            volumes,
            wire,
            ports,
        )

    def _total(
        self, resources: Sequence[mesos_pb2.Resource]
    ) -> tuple[Resources, int, frozenset[str], PortRanges | None]:
        key = tuple([each.SerializeToString() for each in resources])
        known = self._totals.get(key)
        if known is None:
            volumes = frozenset(found for each in resources if (found := volume_id(each)))
            _make_room(self._totals)
            known = self._totals[key] = (*sums(resources), volumes, ports_of(resources))
        return known

    def _labels_of(self, attributes: Sequence[mesos_pb2.Attribute]) -> tuple[Label, ...]:
        key = tuple([each.SerializeToString() for each in attributes])
        known = self._labels.get(key)
        if known is None:
            _make_room(self._labels)
            known = self._labels[key] = labels_from(attributes)
        return known


def agent_from(wire: master_pb2.Response.GetAgents.Agent, role: str) -> Agent:
    """Translate one agent."""
    return AgentTranslator(role).agent(wire)

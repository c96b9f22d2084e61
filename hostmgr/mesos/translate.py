"""Translation of offers, agents and resources between messages of Mesos and values of the core."""

from __future__ import annotations

from collections.abc import Iterable

from hostmgr.core.offers import CPU, PORTS, SCALARS, Entry, Offer, Taken
from hostmgr.core.table import Agent
from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from peloton.model.resources import KINDS, MILLI, Resources, milli
from peloton.wire.hosts import labels_from

UNRESERVED = "*"
KIND_OF = dict(zip(SCALARS, KINDS, strict=True))
"""Name of a resource in Mesos → Peloton's name of the kind."""


class ResourceTemplates:
    """Number the resource entries of Mesos without their amounts."""

    def __init__(self) -> None:
        self._common: dict[tuple[str, str, str, bool], int] = {}
        self._numbers: dict[bytes, int] = {}
        self._templates: list[mesos_pb2.Resource] = []

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
    """Translate an offer."""
    return Offer(
        wire.id.value,
        wire.agent_id.value,
        wire.hostname,
        tuple(entries_of(wire.resources, templates)),
        labels_from(wire.attributes),
        wire,
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


def agent_from(wire: master_pb2.Response.GetAgents.Agent, role: str) -> Agent:
    """Translate an agent. Only resources allocated to `role` count as allocated."""
    total, slack_cpu = sums(wire.total_resources)
    ours = [each for each in wire.allocated_resources if each.allocation_info.role in ("", role)]
    allocated, allocated_slack_cpu = sums(ours)
    return Agent(
        wire.agent_info.id.value,
        wire.agent_info.hostname,
        labels_from(wire.agent_info.attributes),
        total,
        slack_cpu,
        allocated,
        allocated_slack_cpu,
        address_of(wire),
        frozenset(found for each in wire.total_resources if (found := volume_id(each))),
        wire,
    )

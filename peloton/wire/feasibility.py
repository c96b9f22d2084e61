"""Translate the needs of gangs and their shortages between the wire and the model."""

from __future__ import annotations

from peloton.api.v0.task import task_pb2
from peloton.model.resources import KINDS, MILLI, milli
from peloton.model.shortage import PORTS, REVOCABLE_CPU, HostGains, Lack, Shortage
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.private.hostmgr.hostsvc import hostsvc_pb2

LAUNCHES = "peloton/launches"
"""A resource beside those of the offers of a claimed host: how many more tasks may be launched on it now."""
_NUMBERS = {
    Lack.HOSTS: pb.Shortage.LACK_HOSTS,
    Lack.RESOURCE: pb.Shortage.LACK_RESOURCE,
    Lack.COMBINATION: pb.Shortage.LACK_COMBINATION,
    Lack.CONSTRAINT: pb.Shortage.LACK_CONSTRAINT,
    Lack.PLAIN_HOST: pb.Shortage.LACK_PLAIN_HOST,
    Lack.ROOM: pb.Shortage.LACK_ROOM,
    Lack.CAPACITY: pb.Shortage.LACK_CAPACITY,
    Lack.CONTRADICTION: pb.Shortage.LACK_CONTRADICTION,
}
_LACKS = {number: lack for lack, number in _NUMBERS.items()}


def host_filter(
    resource: task_pb2.ResourceConfig, ports: int, revocable: bool, constraint: task_pb2.Constraint | None
) -> hostsvc_pb2.HostFilter:
    """Build the filter for hosts of one task; `ports` is the number of dynamic ports."""
    wire = hostsvc_pb2.HostFilter()
    wire.resourceConstraint.minimum.CopyFrom(resource)
    wire.resourceConstraint.numPorts = ports
    wire.resourceConstraint.revocable = revocable
    if constraint is not None:
        wire.schedulingConstraint.CopyFrom(constraint)
    return wire


def shortage_to(shortage: Shortage) -> pb.Shortage:
    """Encode a shortage."""
    return pb.Shortage(
        lack=_NUMBERS[shortage.lack],
        kind=shortage.kind,
        needed=shortage.needed / MILLI,
        largest=shortage.largest / MILLI,
        hosts=shortage.hosts,
        text=shortage.explained,
        label=shortage.label,
        detail=shortage.detail,
    )


def shortage_from(wire: pb.Shortage) -> Shortage | None:
    """Decode a shortage, None for an unknown kind of it."""
    lack = _LACKS.get(wire.lack)
    if lack is None:
        return None
    return Shortage(
        lack, wire.kind, milli(wire.needed), milli(wire.largest), wire.hosts, wire.label, wire.detail
    )


def gains_to(gains: HostGains, version: str) -> pb.GetHostGainsResponse:
    """Encode what changed hosts offer."""
    amounts = dict(zip(KINDS, gains.largest, strict=True))
    amounts |= {REVOCABLE_CPU: gains.revocable_cpu, PORTS: gains.ports}
    return pb.GetHostGainsResponse(
        hosts_version=version,
        hosts=gains.hosts,
        largest={kind: amount / MILLI for kind, amount in amounts.items()},
        plain=gains.plain,
        relabelled=gains.relabelled,
        labels=sorted(gains.labels or ()),
        many_labels=gains.labels is None,
    )


def gains_from(wire: pb.GetHostGainsResponse) -> HostGains | None:
    """Decode what changed hosts offer; None where that is not known."""
    if wire.unknown_version:
        return None
    return HostGains(
        hosts=wire.hosts,
        largest=tuple(milli(wire.largest[kind]) for kind in KINDS),
        revocable_cpu=milli(wire.largest[REVOCABLE_CPU]),
        ports=milli(wire.largest[PORTS]),
        plain=wire.plain,
        relabelled=wire.relabelled,
        labels=None if wire.many_labels else frozenset(wire.labels),
    )

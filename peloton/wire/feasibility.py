"""Translate the needs of gangs and their shortages between the wire and the model."""

from __future__ import annotations

from peloton.api.v0.task import task_pb2
from peloton.model.resources import MILLI
from peloton.model.shortage import Lack, Shortage
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
        text=str(shortage),
    )


def shortage_from(wire: pb.Shortage) -> Shortage | None:
    """Decode a shortage, None for an unknown kind of it."""
    lack = _LACKS.get(wire.lack)
    if lack is None:
        return None
    return Shortage(lack, wire.kind, round(wire.needed * MILLI), round(wire.largest * MILLI), wire.hosts)

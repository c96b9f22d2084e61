"""What is held of hosts, on the wire."""

from __future__ import annotations

from collections.abc import Sequence

from mesos.v1 import mesos_pb2
from peloton.model.resources import MILLI, Resources, checked_milli
from peloton.private.hostmgr.holds import holds_pb2
from peloton.wire.hosts import RESOURCE_NAMES, Encoded

_FIELDS = ("cpu", "memory_mb", "disk_mb", "gpu")
"""Fields of a room, in the order of `Resources`."""
_PORTS = "ports"


def room_to(resources: Resources, revocable: bool, ports: int) -> holds_pb2.Room:
    """Return what a task asks for as what is to be held for it."""
    amounts = zip(_FIELDS, (amount / MILLI for amount in resources.values()), strict=True)
    return holds_pb2.Room(**dict(amounts), ports=ports, revocable=revocable)


def room_from(wire: holds_pb2.Room, path: str) -> tuple[Resources, bool, int]:
    """Return resources, whether their CPU is revocable, and number of ports. Raises InvalidArgument."""
    amounts = (checked_milli(f"{path}.{name}", getattr(wire, name)) for name in _FIELDS)
    return Resources(*amounts), wire.revocable, wire.ports


def without(offers: Sequence[Encoded], resources: Resources, slack_cpu: int, ports: int) -> Sequence[Encoded]:
    """Return the resources of a host's offers without what is kept of them."""
    left = {(name, False): amount for name, amount in zip(RESOURCE_NAMES, resources.values(), strict=True)}
    left[RESOURCE_NAMES[0], True], left[_PORTS, False] = slack_cpu, ports
    return [tuple(_reduced(each, left) for each in offer) for offer in offers]


def _reduced(encoded: bytes, left: dict[tuple[str, bool], int]) -> bytes:
    """Return a resource without its part of what is left to take away, which gets less by it."""
    wire = mesos_pb2.Resource.FromString(encoded)
    kind = wire.name, wire.HasField("revocable")
    if not left.get(kind) or wire.disk.HasField("persistence"):
        return encoded
    if wire.name == _PORTS:
        left[kind] -= _take_ports(wire, left[kind])
    else:
        amount = checked_milli(wire.name, wire.scalar.value)
        part = min(amount, left[kind])
        wire.scalar.value = (amount - part) / MILLI
        left[kind] -= part
    return wire.SerializeToString()


def _take_ports(wire: mesos_pb2.Resource, most: int) -> int:
    """Take up to `most` ports away, the last ones first; return how many were taken."""
    taken = 0
    ranges = wire.ranges.range
    while ranges and taken < most:
        last = ranges[-1]
        part = min(most - taken, last.end - last.begin + 1)
        taken += part
        if last.end - part < last.begin:
            del ranges[-1]
        else:
            last.end -= part
    return taken

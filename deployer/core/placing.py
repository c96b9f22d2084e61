"""On which host a daemon is started, and at which ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deployer.core.values import Instance

PortRange = tuple[int, int]
"""The first and the last port of a range."""


@dataclass(frozen=True, slots=True)
class Need:
    """What a daemon needs of its host."""

    cpus: float
    mem: float
    """In MiB."""
    ports: int
    hosts: frozenset[str] = frozenset()
    """Names of the hosts that may have it; empty: any."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Attributes that its host must have."""


@dataclass(frozen=True, slots=True)
class Room:
    """What an offer has."""

    offer: str
    host: str
    cpus: float
    mem: float
    ports: tuple[PortRange, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a daemon is started."""

    offer: str
    host: str
    ports: tuple[int, ...]


def place(
    group: str, need: Need, rooms: Sequence[Room], instances: Iterable[Instance], turn: int
) -> Place | None:
    """Return the place for a daemon of a group: on the host with the fewest of the group, then of all.

    None where no offer has room. `turn` is the number of daemons started before: ports are taken in turn, so
    that a daemon's address is not soon that of another one.
    """
    fitting = [room for room in rooms if shortage(need, room) == ""]
    if not fitting:
        return None
    running = [each for each in instances if not each.ending]

    def crowd(room: Room) -> tuple[int, int, str]:
        here = [each for each in running if each.host == room.host]
        return sum(each.group == group for each in here), len(here), room.host

    best = min(fitting, key=crowd)
    return Place(best.offer, best.host, _ports(best.ports, need.ports, turn))


def shortage(need: Need, room: Room) -> str:
    """Return what a room lacks for a daemon; empty where it fits."""
    if need.hosts and room.host not in need.hosts:
        return "is not one of its hosts"
    for name, value in need.attributes.items():
        if room.attributes.get(name) != value:
            return f"has no attribute {name}:{value}"
    if room.cpus < need.cpus:
        return f"has {room.cpus:g} of {need.cpus:g} CPUs"
    if room.mem < need.mem:
        return f"has {room.mem:g} of {need.mem:g} MiB of memory"
    if (free := _size(room.ports)) < need.ports:
        return f"has {free} of {need.ports} ports"
    return ""


def no_place(need: Need, rooms: Sequence[Room]) -> str:
    """Return why no offer has room for a daemon."""
    if not rooms:
        return "Mesos offers no host"
    return "; ".join(f"{room.host} {shortage(need, room)}" for room in sorted(rooms, key=lambda r: r.host))


def _size(ranges: Iterable[PortRange]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _ports(ranges: Sequence[PortRange], count: int, turn: int) -> tuple[int, ...]:
    size = _size(ranges)
    return tuple(_nth(ranges, (turn * count + i) % size) for i in range(count)) if count else ()


def _nth(ranges: Sequence[PortRange], index: int) -> int:
    for first, last in ranges:
        if index <= last - first:
            return first + index
        index -= last - first + 1
    raise IndexError("beyond the ranges")

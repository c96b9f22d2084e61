"""The heat map of hosts: a cell for each host, coloured by the allocated share of one kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peloton.model.resources import KINDS
from peloton.web.views.host_rows import NOTHING, HostRow, Usage

STEPS = 10
"""Colours of the scale; a share of 0 is the first one, and a share of 1 the last one."""
OUT_OF_SERVICE = "out"
"""The level of hosts in maintenance."""
NO_CAPACITY = "none"
"""The level of hosts that have nothing of the kind, or whose agents are away."""
UNITS = dict(zip(KINDS, ("cores", "MB", "MB", "GPUs"), strict=True))
LABELS = dict(zip(KINDS, ("CPU", "Memory", "Disk", "GPU"), strict=True))


@dataclass(frozen=True, slots=True)
class Cell:
    """A host on the map."""

    url: str
    level: str
    text: str
    """The host's name and its value in words."""
    value: str
    """The percentage, or the level of a host without one."""


@dataclass(frozen=True, slots=True)
class HeatGroup:
    """Hosts that stand together, with their sums."""

    name: str
    cells: tuple[Cell, ...]
    usage: Usage
    up: int
    """Hosts in service."""
    states: tuple[tuple[str, int], ...]
    """Numbers of the hosts in other states."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """All groups, the largest capacity first."""

    kind: str
    label: str
    unit: str
    groups: tuple[HeatGroup, ...]
    hosts: int
    usage: Usage
    """Sums over all groups."""

    @property
    def dense(self) -> bool:
        """Return whether there are so many hosts that the cells should be small."""
        return self.hosts > 1000


@dataclass(frozen=True, slots=True)
class LegendStep:
    """A colour of the scale with the shares it stands for."""

    level: str
    text: str


LEGEND = tuple(
    LegendStep(str(step), f"{100 * step // STEPS} to {100 * (step + 1) // STEPS} %") for step in range(STEPS)
)


def heat_map(rows: Iterable[HostRow], kind: str, group: str) -> HeatMap:
    """Arrange hosts in groups. `group` is as in HostsQuery; a host of several values is in the first one."""
    groups: dict[str, list[HostRow]] = defaultdict(list)
    for row in rows:
        groups[_group_of(row, group)].append(row)
    made = [_group(name, members, kind) for name, members in groups.items()]
    made.sort(key=lambda each: (-each.usage.capacity, each.name))
    return HeatMap(
        kind,
        LABELS[kind],
        UNITS[kind],
        tuple(made),
        sum(len(g.cells) for g in made),
        _sum(g.usage for g in made),
    )


def _group_of(row: HostRow, group: str) -> str:
    if group.startswith("label:"):
        key = group.removeprefix("label:")
        return next((value for name, value in row.labels if name == key), f"without {key}")
    return {
        "pool": row.pool or "all hosts",
        "state": row.state,
        "cluster": row.cluster or "unnamed cluster",
    }.get(group, "all hosts")


def _group(name: str, rows: Sequence[HostRow], kind: str) -> HeatGroup:
    unit = UNITS[kind]
    shown = sorted(rows, key=lambda row: row.name)
    states = Counter(row.state for row in shown)
    up = states.pop("UP", 0)
    return HeatGroup(
        name,
        tuple(_cell(row, kind, unit) for row in shown),
        _sum(row.used(kind) for row in shown),
        up,
        tuple(sorted(states.items())),
    )


def _cell(row: HostRow, kind: str, unit: str) -> Cell:
    of_host = level(row, kind)
    value = str(row.used(kind).percent) if of_host.isdigit() else of_host
    return Cell(row.url, of_host, _text(row, kind, unit), value)


def _sum(parts: Iterable[Usage]) -> Usage:
    allocated = capacity = 0.0
    for each in parts:
        allocated += each.allocated
        capacity += each.capacity
    return Usage(allocated, capacity)


def level(row: HostRow, kind: str) -> str:
    """Return the level of a host: a step of the scale, OUT_OF_SERVICE or NO_CAPACITY."""
    if not row.up:
        return OUT_OF_SERVICE
    used = row.usage.get(kind, NOTHING)
    if used.capacity <= 0:
        return NO_CAPACITY
    return str(min(int(used.share * STEPS), STEPS - 1))


def _text(row: HostRow, kind: str, unit: str) -> str:
    used = row.usage.get(kind, NOTHING)
    if used.capacity > 0:
        value = f"{used.percent} %, {used.allocated:g} of {used.capacity:g} {unit}"
    else:
        value = f"no {unit}" if row.connected else "no agent"
    return f"{row.name}: {value}" if row.up else f"{row.name}: {row.state}, {value}"

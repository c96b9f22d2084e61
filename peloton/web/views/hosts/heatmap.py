"""The heat map of hosts: a cell for each host, coloured by the allocated share of one kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from peloton.model.amounts import part_of, percent
from peloton.model.resources import KINDS
from peloton.web.views.hosts.rows import NOTHING, HostRow, Usage

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
    tag: str
    """The begin of its link as HTML, to which attributes can be added."""

    @classmethod
    def of(cls, row: HostRow, kind: str) -> Cell:
        """Return the cell of a host."""
        of_host, value, words = _look(row.usage.get(kind, NOTHING), kind)
        words = words if row.connected else "no agent"
        if not row.up:
            of_host, value, words = OUT_OF_SERVICE, OUT_OF_SERVICE, f"{row.state}, {words}"
        text = f"{row.name}: {words}"
        tag = f'<a class="l{of_host}" href="{escape(row.url)}" title="{escape(text)}"'
        return cls(row.url, of_host, text, value, tag)


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

    @property
    def links(self) -> Markup:
        """All cells as HTML. Only the first one is a stop of the tab key; arrow keys lead to the others."""
        # Not by the template: a loop over thousands takes several times as long.
        first, *others = [cell.tag for cell in self.cells]
        return Markup(
            "></a>".join([first, *[f'{tag} tabindex="-1"' for tag in others], ""])
        )  # tags are escaped


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
    LegendStep(str(step), f"{100 * step // STEPS} to {percent(step + 1, STEPS)}") for step in range(STEPS)
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
    shown = sorted(rows, key=lambda row: row.name)
    states = Counter(row.state for row in shown)
    up = states.pop("UP", 0)
    return HeatGroup(
        name,
        tuple(_cell(row, kind) for row in shown),
        _sum(row.used(kind) for row in shown),
        up,
        tuple(sorted(states.items())),
    )


def _cell(row: HostRow, kind: str) -> Cell:
    cell: Cell | None = row.cells.get(kind)
    if cell is None:
        cell = row.cells[kind] = Cell.of(row, kind)
    return cell


def _sum(parts: Iterable[Usage]) -> Usage:
    allocated = capacity = 0.0
    for each in parts:
        allocated += each.allocated
        capacity += each.capacity
    return Usage(allocated, capacity)


def level(row: HostRow, kind: str) -> str:
    """Return the level of a host: a step of the scale, OUT_OF_SERVICE or NO_CAPACITY."""
    return _look(row.usage.get(kind, NOTHING), kind)[0] if row.up else OUT_OF_SERVICE


@lru_cache(10_000)
def _look(used: Usage, kind: str) -> tuple[str, str, str]:
    """Return level, value and words for amounts that many hosts have."""
    if used.capacity <= 0:
        return NO_CAPACITY, NO_CAPACITY, f"no {UNITS[kind]}"
    part = part_of(used.allocated, used.capacity, kind)
    step = str(min(int(used.share * STEPS), STEPS - 1))
    return (
        step,
        str(used.percent),
        f"{percent(used.percent, 100)}, {part}",
    )

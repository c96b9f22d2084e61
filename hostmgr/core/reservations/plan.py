"""Plan which hosts to reserve for a gang, and when it can start there (EASY backfill).

A plan is a set of hosts that the whole gang fits on once enough of the tasks there have ended. It is the one
with the earliest expected start. Tasks whose end is not known are taken to end last: hosts with the fewest of
them come first, and no start is expected.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hostmgr.core.runs.run_info import Vector
from peloton.fast_init import fast_init

NOTHING: Vector = (0, 0, 0, 0, 0, 0)
GAIN_SECONDS = 1.0
"""A start must be earlier by so much before other hosts are reserved for it."""


@dataclass(frozen=True, slots=True)
class Running:
    """What a task on a host will free, and when."""

    amounts: Vector
    end: float
    """The latest end that is expected, in seconds on the monotonic clock."""


fast_init(Running)


@dataclass(frozen=True, slots=True)
class HostView:
    """A host as the planner sees it."""

    agent_id: str
    whole: Vector
    offered: Vector
    """What can be used now."""
    spare: Vector
    """What no task uses, offered or not."""
    running: tuple[Running, ...]
    """Tasks with an expected end, the first to end first."""
    unknown: int
    """Tasks without one; a claim on the host counts as one."""
    tasks: int
    held: bool = False
    """Whether the host is reserved for the gang already."""


fast_init(HostView)


@dataclass(frozen=True, slots=True)
class Demand:
    """Tasks of a gang with the same requirements."""

    amounts: Vector
    count: int
    allowed: frozenset[str]
    """Ids of the agents that could take one when empty."""
    ready: frozenset[str]
    """Ids of those that could take one now."""
    group: int = 0
    """Tasks of different groups are not placed on the same host."""
    most: Mapping[str, int] = field(default_factory=dict)
    """How many such tasks an agent takes beside each other; any number where it is not listed."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the gang on one host."""

    agent_id: str
    free_from: float | None
    """When the host has room for it; None: not known."""
    group: int = 0
    """The group of its tasks."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Hosts for a whole gang."""

    parts: tuple[Part, ...]
    start: float | None
    """When all have room; None: not known."""
    ready: bool = False
    """Whether the gang can start on what is offered now."""
    unknown: int = 0
    """Most tasks without an expected end that one of the hosts has."""

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Return the hosts."""
        return tuple(part.agent_id for part in self.parts)


_Free = Callable[[HostView], Vector]
_Packing = Mapping[str, tuple[Vector, int]]
"""What the gang uses of each host, and the group of its tasks there."""


def plan(demands: Sequence[Demand], spread: bool, hosts: Sequence[HostView], now: float) -> Plan | None:
    """Return the plan with the earliest start; None where the gang does not fit on the empty hosts.

    Hosts that are held come first, then those with the most room for the gang, then those with the fewest
    tasks.
    """
    packed = _pack(demands, spread, hosts, lambda host: host.offered, now=True)
    if packed is not None:
        return Plan(tuple(Part(each, now, group) for each, (_, group) in packed.items()), now, ready=True)
    ends = sorted({task.end for host in hosts for task in host.running})
    at = bisect_left(ends, True, key=lambda end: _fits(demands, spread, hosts, _at(end)))
    if at < len(ends):
        return _planned(demands, spread, hosts, max(ends[at], now), _at(ends[at]), now)
    counts = sorted({host.unknown for host in hosts})
    at = bisect_left(counts, True, key=lambda count: _fits(demands, spread, hosts, _emptied(count)))
    if at == len(counts):
        return None
    return _planned(demands, spread, hosts, None, _emptied(counts[at]), now, counts[at])


def _at(time: float) -> _Free:
    """Return the function for what a host has free at a time, with the tasks of known end ended by then."""
    return lambda host: _released(host, time)


def _released(host: HostView, time: float) -> Vector:
    free = host.spare
    for task in host.running:
        if task.end > time:
            break
        free = _sum(free, task.amounts)
    return _least(free, host.whole)


def _emptied(unknown: int) -> _Free:
    """Return the function for what a host has free in the end, with up to `unknown` tasks of unknown end."""
    return lambda host: host.whole if host.unknown <= unknown else _released(host, math.inf)


def _fits(demands: Sequence[Demand], spread: bool, hosts: Sequence[HostView], free: _Free) -> bool:
    return _pack(demands, spread, hosts, free) is not None


def _planned(
    demands: Sequence[Demand],
    spread: bool,
    hosts: Sequence[HostView],
    start: float | None,
    free: _Free,
    now: float,
    unknown: int = 0,
) -> Plan:
    packed = _pack(demands, spread, hosts, free)
    assert packed is not None
    views = {host.agent_id: host for host in hosts}
    parts = (
        Part(agent_id, _free_from(views[agent_id], used, now), group)
        for agent_id, (used, group) in packed.items()
    )
    return Plan(tuple(parts), start, unknown=unknown)


def _free_from(host: HostView, used: Vector, now: float) -> float | None:
    """Return when a host has room for its part of the gang; None where that is not known."""
    if _within(used, _released(host, now)):
        return now
    for task in host.running:
        if task.end > now and _within(used, _released(host, task.end)):
            return task.end
    return None


def _pack(
    demands: Sequence[Demand], spread: bool, hosts: Sequence[HostView], free: _Free, now: bool = False
) -> _Packing | None:
    """Place all tasks, first fit; return what they use of each host, None where they do not fit."""
    left = {host.agent_id: free(host) for host in hosts}
    used: dict[str, tuple[Vector, int]] = {}
    ordered = sorted(demands, key=lambda demand: _size(demand.amounts), reverse=True)
    for demand in ordered:
        count = demand.count
        room = _rooms(demand, spread, hosts, left, used, demand.ready if now else demand.allowed)
        if sum(room.values()) < count:
            return None
        taking = [host for host in hosts if host.agent_id in room]
        for host in sorted(taking, key=lambda host: _rank(host, room, used)):
            some = min(count, room[host.agent_id])
            taken = _multiplied(demand.amounts, some)
            left[host.agent_id] = _difference(left[host.agent_id], taken)
            before, _ = used.get(host.agent_id, (NOTHING, demand.group))
            used[host.agent_id] = (_sum(before, taken), demand.group)
            count -= some
            if not count:
                break
    return used


def _rooms(
    demand: Demand,
    spread: bool,
    hosts: Sequence[HostView],
    left: Mapping[str, Vector],
    used: _Packing,
    allowed: frozenset[str],
) -> dict[str, int]:
    """Return how many tasks of a demand each host takes that takes any."""
    found: dict[str, int] = {}
    most, bounds = 1 if spread else demand.count, demand.most
    needed = [(kind, need) for kind, need in enumerate(demand.amounts) if need]
    for host in hosts:
        agent_id = host.agent_id
        if agent_id not in allowed or (agent_id in used and _closed(used[agent_id], demand, spread)):
            continue
        room = min(most, bounds.get(agent_id, most)) if bounds else most
        free = left[agent_id]
        for kind, need in needed:
            times = free[kind] // need
            if times < room:
                room = times
        if room > 0:
            found[agent_id] = room
    return found


def _closed(used: tuple[Vector, int], demand: Demand, spread: bool) -> bool:
    """Return whether a host that the gang uses takes no tasks of the demand."""
    return spread or used[1] != demand.group


def _rank(
    host: HostView, room: Mapping[str, int], used: _Packing
) -> tuple[bool, bool, int, int, int, tuple[int, ...], str]:
    agent_id = host.agent_id
    return (
        agent_id not in used, not host.held, -room[agent_id], host.unknown, host.tasks,
        _size(host.spare), agent_id,
    )  # fmt: skip


def _size(amounts: Vector) -> tuple[int, ...]:
    cpu, memory, disk, gpu, slack, ports = amounts
    return gpu, cpu, slack, memory, disk, ports


def _within(amounts: Vector, free: Vector) -> bool:
    return all(need <= have or need <= 0 for need, have in zip(amounts, free, strict=True))


def _sum(one: Vector, other: Vector) -> Vector:
    a, b, c, d, e, f = one
    return a + other[0], b + other[1], c + other[2], d + other[3], e + other[4], f + other[5]


def _difference(one: Vector, other: Vector) -> Vector:
    a, b, c, d, e, f = one
    return a - other[0], b - other[1], c - other[2], d - other[3], e - other[4], f - other[5]


def _multiplied(one: Vector, by: int) -> Vector:
    a, b, c, d, e, f = one
    return a * by, b * by, c * by, d * by, e * by, f * by


def _least(one: Vector, other: Vector) -> Vector:
    a, b, c, d, e, f = map(min, one, other)
    return a, b, c, d, e, f


def unused(whole: Vector, running: Iterable[Vector]) -> Vector:
    """Return what is left of a host by what its tasks request."""
    a, b, c, d, e, f = whole
    for cpu, memory, disk, gpu, slack, ports in running:
        a, b, c, d, e, f = a - cpu, b - memory, c - disk, d - gpu, e - slack, f - ports
    return max(0, a), max(0, b), max(0, c), max(0, d), max(0, e), max(0, f)


def earlier(new: Plan, old: Plan) -> bool:
    """Return whether a plan is worth changing hosts for."""
    if old.ready:
        return False
    if new.start is None or old.start is None:
        return old.start is None and (new.start is not None or new.unknown < old.unknown)
    return new.start < old.start - GAIN_SECONDS

"""Moves of hosts between host pools: which hosts go, and the next step of each.

See docs/behaviour/host-pools.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from hostmgr.core.state.host_pools import HostPools
from peloton.errors import InvalidArgument, Refused
from peloton.model.host_pool import PooledHost
from peloton.model.states import HostState


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """The numbers of hosts that two pools are to have."""

    source: str
    source_wanted: int
    destination: str
    destination_wanted: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What decides whether a host can be moved, and what that costs."""

    state: HostState
    registered: bool
    """Whether an agent of the host is registered."""
    busy: bool
    """Whether runs are known there."""


def plan_move(
    request: MoveRequest, pools: HostPools, hosts: Mapping[str, HostFacts], by_cost: Sequence[str]
) -> list[str]:
    """Return the hosts to move, the cheapest first; none where the pools have what is wanted.

    `hosts` are all known hosts. `by_cost` are those without tasks that are not preemptible, the cheapest
    first. Hosts that are being moved count where they go. Raises InvalidArgument, NotFound for an unknown
    pool, and Refused where the numbers cannot be reached.
    """
    _check(request, pools)
    count = _needed(request, pools, hosts)
    rank = {hostname: number for number, hostname in enumerate(by_cost)}
    there = [name for name in hosts if pools.host(name) == PooledHost(name, request.source)]
    movable = [name for name in there if name in rank and _in_service(hosts[name])]
    if len(movable) < count:
        raise Refused(_too_few(request, count, len(movable), [hosts[name] for name in there]))
    return sorted(movable, key=lambda name: (hosts[name].busy, rank[name]))[:count]


def _check(request: MoveRequest, pools: HostPools) -> None:
    for pool in (request.source, request.destination):
        pools.require(pool)
    if request.source == request.destination:
        raise InvalidArgument("destinationPool", request.destination, "another pool than sourcePool")
    for field, wanted in (
        ("srcPoolDesiredHosts", request.source_wanted),
        ("destPoolDesiredHosts", request.destination_wanted),
    ):
        if wanted < 0:
            raise InvalidArgument(field, wanted, "0 or more")


def _needed(request: MoveRequest, pools: HostPools, hosts: Mapping[str, HostFacts]) -> int:
    """Return how many hosts must move. Raises Refused where that does not give both pools what is wanted."""
    source, destination = request.source, request.destination
    here, there = (
        sum(pools.destination_of(name) == pool for name in hosts) for pool in (source, destination)
    )
    present, wanted = here + there, request.source_wanted + request.destination_wanted
    if present != wanted:
        reason = "not enough hosts" if wanted > present else "hosts are left over"
        raise Refused(
            f"{reason}: host pools {source} and {destination} have {here} and {there}, {present} together; "
            f"{request.source_wanted} and {request.destination_wanted} are wanted, {wanted} together"
        )
    if request.destination_wanted < there:
        raise Refused(
            f"host pool {destination} has {there} and {request.destination_wanted} are wanted: "
            f"move from {destination} to {source} instead"
        )
    return request.destination_wanted - there


def _in_service(host: HostFacts) -> bool:
    return host.registered and host.state is HostState.UP


def _too_few(request: MoveRequest, count: int, movable: int, there: Sequence[HostFacts]) -> str:
    down = sum(host.state is not HostState.UP for host in there)
    away = sum(host.state is HostState.UP and not host.registered for host in there)
    fixed = len(there) - movable - down - away
    others = ", ".join(
        f"{number} {'has' if number == 1 else 'have'} {what}"
        for number, what in (
            (fixed, "tasks that are not preemptible"),
            (down, "maintenance"),
            (away, "no agent at the moment"),
        )
        if number
    )
    return (
        f"{count} {'host' if count == 1 else 'hosts'} would have to move from {request.source} to "
        f"{request.destination}, but {movable or 'none'} of {len(there)} can: {others}"
    )


class Step(Enum):
    """What to do next with a host that is being moved."""

    DRAIN = "start its maintenance"
    CHANGE_POOL = "change its pool"
    BRING_UP = "complete its maintenance"
    FINISH = "finish"
    WAIT = "wait"


_EMPTY = frozenset({HostState.DRAINED, HostState.DOWN})


def next_step(host: PooledHost, state: HostState, goal: HostState) -> Step:
    """Return the next step for a host that is being moved, by its state and goal in maintenance."""
    if host.pool != host.desired:
        if state in _EMPTY:
            return Step.CHANGE_POOL
        return Step.DRAIN if state is HostState.UP else Step.WAIT
    if state is HostState.UP:
        return Step.FINISH
    return Step.BRING_UP if state is HostState.DOWN and goal is HostState.DOWN else Step.WAIT

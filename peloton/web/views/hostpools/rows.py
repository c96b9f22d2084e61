"""Host pools: their hosts and capacity, and previews of what changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peloton.errors import InvalidArgument
from peloton.model.host_pool import BATCH_RESERVED, DEFAULT, SHARED, STATELESS
from peloton.model.resources import KINDS
from peloton.web.views.hosts.rows import HostRow, Usage

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostPoolInfo

_USES = {
    SHARED: "preemptible batch jobs",
    BATCH_RESERVED: "batch jobs that are not preemptible",
    STATELESS: "services",
}
CANDIDATES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class HostPool:
    """A host pool with its sums."""

    name: str
    use: str
    """The jobs that use it by themselves."""
    hosts: int
    away: int
    """Hosts without a registered agent."""
    in_maintenance: int
    arriving: int
    leaving: int
    usage: Mapping[str, Usage]
    """Of the hosts with an agent, by kind."""

    @property
    def fixed(self) -> bool:
        """Return whether the pool cannot be deleted."""
        return self.name == DEFAULT


def host_pools(pools: Iterable[HostPoolInfo], rows: Iterable[HostRow]) -> tuple[HostPool, ...]:
    """Return all pools, `default` first. Pools of one name in several Mesos clusters are one."""
    known = {row.name: row for row in rows}
    hosts: dict[str, list[str]] = {}
    for pool in pools:
        hosts.setdefault(pool.name, []).extend(pool.hosts)
    made = [_pool(name, names, known) for name, names in hosts.items()]
    return tuple(sorted(made, key=lambda pool: (not pool.fixed, pool.name)))


def _pool(name: str, hosts: Sequence[str], known: Mapping[str, HostRow]) -> HostPool:
    rows = [known[host] for host in hosts if host in known]
    return HostPool(
        name=name,
        use=_USES.get(name, "jobs whose constraint names it"),
        hosts=len(hosts),
        away=len(hosts) - sum(row.connected for row in rows),
        in_maintenance=sum(not row.up for row in rows),
        arriving=sum(row.moving and row.desired_pool == name for row in known.values()),
        leaving=sum(row.moving for row in rows),
        usage={kind: _sum(row.used(kind) for row in rows) for kind in KINDS},
    )


def _sum(parts: Iterable[Usage]) -> Usage:
    whole = Usage()
    for each in parts:
        whole = whole + each
    return whole


@dataclass(frozen=True, slots=True)
class Move:
    """So many hosts are to go from a pool to another one."""

    source: str
    destination: str
    count: int
    source_wanted: int
    """What the pools will have."""
    destination_wanted: int
    likely: tuple[str, ...]
    """The hosts that cost least to move now, at most CANDIDATES_SHOWN."""
    movable: int | None
    """How many hosts can be moved; None where it is not known."""

    @property
    def possible(self) -> bool:
        """Return whether there are enough hosts that can be moved, as far as it is known."""
        return self.movable is None or self.movable >= self.count


def move(
    rows: Sequence[HostRow],
    pools: Sequence[HostPool],
    source: str,
    destination: str,
    count: int,
    by_cost: Sequence[str] | None,
) -> Move:
    """Plan the move of hosts. `by_cost`: those that can be moved, the cheapest first; None: not known.

    Hosts that are being moved count where they go. Raises InvalidArgument.
    """
    names = [pool.name for pool in pools]
    for field, pool in (("source", source), ("destination", destination)):
        if pool not in names:
            raise InvalidArgument(field, pool, "one of " + ", ".join(names))
    if source == destination:
        raise InvalidArgument("destination", destination, "another pool than the source")
    here, there = (
        sum((row.desired_pool or row.pool) == pool for row in rows) for pool in (source, destination)
    )
    if not 0 < count <= here:
        raise InvalidArgument("count", count, f"a number from 1 to {here}, the hosts of {source}")
    movable = None
    if by_cost is not None:
        inside = {
            row.name for row in rows if row.pool == source and not row.moving and row.up and row.connected
        }
        movable = [name for name in by_cost if name in inside]
    return Move(
        source,
        destination,
        count,
        here - count,
        there + count,
        tuple((movable or [])[: min(count, CANDIDATES_SHOWN)]),
        None if movable is None else len(movable),
    )

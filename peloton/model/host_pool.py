"""Host pools: named sets of hosts. With pools, each host is in exactly one of them."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint, mentions
from peloton.model.states import TaskType

HOST_POOL = "host_pool"
"""The key of the host label that names the pool of a host."""
DEFAULT = "default"
"""The pool of hosts that are in no other. It always exists."""
BATCH_RESERVED = "batch_reserved"
SHARED = "shared"
STATELESS = "stateless"
KINDS_OF_JOBS = {
    SHARED: "preemptible batch jobs",
    BATCH_RESERVED: "other batch jobs",
    STATELESS: "services",
}
"""By the pool that they use unless they name another one."""


@dataclass(frozen=True, slots=True)
class PooledHost:
    """A host that is in another pool than `default`, or is being moved."""

    hostname: str
    pool: str
    desired: str = ""
    """The pool to which it is being moved, until it is up there; empty: it is not being moved."""


@dataclass(frozen=True, slots=True)
class HostPoolChange:
    """Rows to write and to delete. Pools are written before hosts."""

    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """Pools, both."""
    placed: tuple[PooledHost, ...] = ()
    forgotten: tuple[str, ...] = ()
    """Hostnames whose rows are deleted: the hosts are in `default`, and not being moved."""

    def __bool__(self) -> bool:
        return bool(self.created or self.deleted or self.placed or self.forgotten)


@dataclass(frozen=True, slots=True)
class StoredHostPools:
    """All rows: pools without `default`, and hosts."""

    pools: tuple[str, ...] = ()
    hosts: tuple[PooledHost, ...] = ()


def implicit_pool(type_: TaskType, preemptible: bool) -> str:
    """Return the pool whose hosts a task gets unless its own constraint names one; empty: any pool's hosts.

    Tasks of daemon jobs run on the hosts of all pools.
    """
    if type_ is TaskType.BATCH:
        return SHARED if preemptible else BATCH_RESERVED
    return STATELESS if type_ in (TaskType.STATELESS, TaskType.STATEFUL) else ""


def in_pool(pool: str, constraint: Constraint | None = None) -> Constraint:
    """Return a constraint that also requires a host of the pool."""
    leaf = LabelConstraint(Kind.HOST, Condition.EQUAL, (HOST_POOL, pool), 1)
    return leaf if constraint is None else AndConstraint((leaf, constraint))


def with_implicit_pool(constraint: Constraint | None, pool: str) -> Constraint | None:
    """Add the implicit pool to a constraint, unless there is none or the constraint itself names a pool."""
    if not pool or mentions(constraint, Kind.HOST, HOST_POOL):
        return constraint
    return in_pool(pool, constraint)

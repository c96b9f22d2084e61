"""Configs of resource pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from peloton.model.ids import ROOT_POOL, PoolId


class ReservationType(IntEnum):
    """Whether others may borrow what is reserved (ELASTIC) or not (STATIC)."""

    ELASTIC = 1
    STATIC = 2


@dataclass(frozen=True, slots=True)
class KindConfig:
    """Reservation, limit and share of a pool in one kind, in thousandths (see `peloton.model.resources`)."""

    reservation: int = 0
    limit: int = 0
    share: float = 1.0
    type: ReservationType = ReservationType.ELASTIC


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """The config of a resource pool."""

    id: PoolId
    name: str
    parent: PoolId
    kinds: Mapping[str, KindConfig] = field(default_factory=dict)
    """By kind (cpu, memory, disk, gpu); one left out is reservation 0, limit 0, share 1."""
    owning_team: str = ""
    ldap_groups: tuple[str, ...] = ()
    description: str = ""
    controller_limit_percent: float | None = None
    """Of the reservation; None: no limit."""
    slack_limit_percent: float | None = None
    """Of the reservation of memory, disk and gpu; None: 20."""
    version: int = 1
    created_at: int = 0
    updated_at: int = 0
    updated_by: str = ""

    def kind(self, name: str) -> KindConfig:
        """Return the config of a kind."""
        return self.kinds.get(name, _ABSENT)


_ABSENT = KindConfig()


def child_path(parent: str, name: str) -> str:
    """Return the path of the pool `name` whose parent has the path `parent`."""
    return f"{parent.rstrip('/')}/{name}"


def pool_path(pool_id: PoolId, pools: Sequence[PoolConfig]) -> str:
    """Return `/` for the root, `/a/b` below it, and an empty text for a pool that is not there."""
    return _path(pool_id, {pool.id: pool for pool in pools})


def pool_paths(pools: Sequence[PoolConfig]) -> dict[PoolId, str]:
    """Return the paths of pools by their ids; an empty text for one whose ancestors are not there."""
    by_id = {pool.id: pool for pool in pools}
    return {pool_id: _path(pool_id, by_id) for pool_id in by_id}


def _path(pool_id: PoolId, by_id: Mapping[PoolId, PoolConfig]) -> str:
    names: list[str] = []
    while pool_id != ROOT_POOL:
        pool = by_id.get(pool_id)
        if pool is None or len(names) > len(by_id):
            return ""
        names.append(pool.name)
        pool_id = pool.parent
    return "/" + "/".join(reversed(names))

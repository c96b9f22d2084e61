"""What a new or changed pool would do to the entitlement of all pools: decided on a copy of the tree."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.ids import PoolId
from peloton.model.pool import PoolConfig
from resmgr.core.entitlement.sharing import entitle
from resmgr.core.state.amounts import Vector
from resmgr.core.state.pools import PoolTree


@dataclass(frozen=True, slots=True)
class PoolEffect:
    """The entitlement of a pool before and after a change, for what its tasks hold and ask for now."""

    id: PoolId
    path: str
    """After the change."""
    before: Vector | None
    """None for a pool that there is not yet."""
    after: Vector


def plan_pool(tree: PoolTree, config: PoolConfig) -> list[PoolEffect]:
    """Return what a pool would change: itself and the pools whose entitlement would differ, parents first.

    The pool is a new one where the tree has none of its id. All demand counts, also that of gangs that cannot
    use what they would get. The capacity must be known. Raises InvalidArgument and PoolExists as the change.
    """
    planned = tree.copy()
    entitle(planned)
    before = {pool.id: pool.entitlement for pool in planned}
    if planned.find(config.id) is None:
        planned.check_new(config)
        planned.insert(config)
    else:
        planned.check_update(config)
        planned.replace(config)
    entitle(planned)
    effects = (PoolEffect(pool.id, pool.path, before.get(pool.id), pool.entitlement) for pool in planned)
    return [each for each in effects if each.id == config.id or each.before != each.after]

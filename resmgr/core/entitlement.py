"""What each pool is entitled to."""

from __future__ import annotations

from resmgr.core.pools import PoolTree
from resmgr.core.tasks import Vector


def entitle(tree: PoolTree) -> None:
    """Set the entitlement of every pool: its limit, bounded by its ancestors' and by the cluster's capacity.

    Slack: as much of the slack cpu as the cluster has, and of the other kinds the leaf's slack limit.
    """
    assert tree.capacity is not None, "capacity is not known"
    root = tree.root
    root.entitlement = tree.capacity.values()
    root.slack_entitlement = (tree.slack_capacity.cpu, *root.entitlement[1:])
    for pool in tree:
        if pool.parent is not None:
            pool.entitlement = _least(pool.limit, pool.parent.entitlement)
            bound = pool.entitlement if pool.children else pool.slack_limit
            slack = _least(bound, pool.parent.slack_entitlement)
            pool.slack_entitlement = (pool.parent.slack_entitlement[0], *slack[1:])


def _least(one: Vector, other: Vector) -> Vector:
    return min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])

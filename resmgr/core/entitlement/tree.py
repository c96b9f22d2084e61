"""What each pool of the tree is entitled to."""

from __future__ import annotations

from peloton.model.resources import Resources
from resmgr.core.entitlement.fair_share import Load, Snapshot, entitlements
from resmgr.core.pools import Pool, PoolTree

Loads = tuple[tuple[int, ...], ...]
_NO_LOAD = (0,) * 16


def loads(tree: PoolTree) -> Loads:
    """What entitlement depends on beside the tree and the capacity, to be compared with what it was."""
    return tuple([(*pool.used, *pool.slack, *pool.demand, *pool.slack_demand) for pool in tree.leaves()])


def entitle(tree: PoolTree) -> None:
    """Share the cluster's capacity, which must be known, among all pools (behaviour 7.2)."""
    assert tree.capacity is not None, "capacity is not known"
    leaves = list(tree.leaves())
    snapshot = Snapshot(
        pools=[pool.config for pool in tree],
        capacity=tree.capacity,
        revocable_cpu=tree.slack_capacity.cpu,
        loads={
            pool.id: _load(pool) for pool, load in zip(leaves, loads(tree), strict=True) if load != _NO_LOAD
        },
    )
    for pool_id, entitled in entitlements(snapshot).items():
        tree.get(pool_id).entitle(entitled.total.values(), entitled.slack.values())


def _load(pool: Pool) -> Load:
    return Load(
        allocation=Resources(*pool.firm()),
        demand=Resources(*pool.demand),
        slack_allocation=Resources(*pool.slack),
        slack_demand=Resources(*pool.slack_demand),
    )

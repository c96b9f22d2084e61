"""Sharing the cluster's capacity among the pools."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from resmgr.core.entitlement.fair_share import Load, Snapshot, entitlements
from resmgr.core.state.infeasible import beyond_capacity
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.pools import Pool, PoolTree

Loads = tuple[tuple[int, ...], ...]
_NO_LOAD = (0,) * 16


class Sharing:
    """The tree of pools and the entitlement of each."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.tree = PoolTree()
        self._lifecycle = lifecycle
        self._refused = False
        """Whether a gang was refused because of its pool's entitlement since the last calculation."""
        self._loads: Loads = ()
        """The loads that the present entitlement was calculated from."""
        self._next = 0.0
        """When entitlement may next follow demand."""

    def load_pools(self, configs: Iterable[PoolConfig]) -> list[Pool]:
        """Insert stored pools. Return and raise as `PoolTree.load`."""
        renamed = self.tree.load(configs)
        self.entitle()
        return renamed

    def set_capacity(self, capacity: Resources, slack: Resources) -> bool:
        """Set what the cluster has; return whether that was unknown before."""
        first = self.tree.capacity is None
        self.tree.set_capacity(capacity, slack)
        self.entitle()
        self._bring_back(capacity)
        return first

    def _bring_back(self, capacity: Resources) -> None:
        """Return the gangs that were larger than the cluster and are not any more."""
        lifecycle = self._lifecycle
        for shape in lifecycle.infeasible.too_large() if any(capacity.values()) else ():
            gang = lifecycle.infeasible.gangs(shape)[0]
            shortage = beyond_capacity(gang.charge.entitled, capacity.values())
            if shortage is None:
                lifecycle.bring_back(shape)
            else:
                lifecycle.keep_aside(shape, shortage)

    def entitle(self) -> None:
        """Share the capacity, where it is known, among all pools (docs/behaviour/pools.md, Entitlement)."""
        if self.tree.capacity is not None:
            self._loads = loads(self.tree)
            entitle(self.tree, self._loads)
            self._refused = False
            self._lifecycle.changed = True

    def note_refusal(self) -> None:
        """Note that a gang was refused because of its pool's entitlement."""
        self._refused = True

    def demand_moved(self, now: float) -> bool:
        """Return whether entitlement is due because of demand.

        It is where a gang was refused and some pool's load differs from what entitlement was calculated
        from, but at most once in `Policy.sharing_interval` seconds.
        """
        return self._refused and now >= self._next and loads(self.tree) != self._loads

    def follow_demand(self, now: float) -> None:
        """Share the capacity anew if that is due because of demand."""
        if self.tree.capacity is not None and self.demand_moved(now):
            self._next = now + self._lifecycle.policy.sharing_interval
            self.entitle()


def loads(tree: PoolTree) -> Loads:
    """Return what entitlement depends on beside the tree and the capacity."""
    return tuple([(*pool.used, *pool.slack, *pool.demand, *pool.slack_demand) for pool in tree.leaves()])


def entitle(tree: PoolTree, of_leaves: Loads) -> None:
    """Set the entitlement of all pools. The capacity must be known."""
    assert tree.capacity is not None, "capacity is not known"
    snapshot = Snapshot(
        pools=[pool.config for pool in tree],
        capacity=tree.capacity,
        revocable_cpu=tree.slack_capacity.cpu,
        loads={
            pool.id: _load(pool)
            for pool, load in zip(tree.leaves(), of_leaves, strict=True)
            if load != _NO_LOAD
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

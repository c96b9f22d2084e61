"""Trees of pools as hypothesis draws them, with one kind of resource, and what they mean as a snapshot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st

from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import Resources
from resmgr.core.entitlement.fair_share import Entitlement, Load, Snapshot, entitlements

thorough = settings(
    max_examples=int(os.environ.get("PELOTON_EXAMPLES", "500")),
    deadline=None,
)
"""500 examples, or as many as PELOTON_EXAMPLES says."""

ROOT = -1
SHARES = (1.0, 1.0, 1.0, 0.0, 2.0, 0.3, 0.1)


@dataclass(frozen=True, slots=True)
class Node:
    """One pool. Its load counts only where it is a leaf."""

    parent: int
    """Its place in the tree's nodes, before this one's; ROOT for the root."""
    reservation: int
    limit: int
    share: float
    static: bool
    allocation: int
    demand: int
    slack_allocation: int
    slack_demand: int
    slack_percent: float | None

    def times(self, factor: int) -> Node:
        return replace(
            self,
            reservation=self.reservation * factor,
            limit=self.limit * factor,
            share=self.share * factor,
            allocation=self.allocation * factor,
            demand=self.demand * factor,
            slack_allocation=self.slack_allocation * factor,
            slack_demand=self.slack_demand * factor,
        )


@dataclass(frozen=True, slots=True)
class Tree:
    nodes: tuple[Node, ...]
    capacity: int
    """Also of revocable cpu."""

    def children(self, parent: int) -> list[int]:
        return [i for i, node in enumerate(self.nodes) if node.parent == parent]

    def parents(self) -> list[int]:
        """The root and all that have children."""
        return sorted({ROOT, *(node.parent for node in self.nodes)})

    def is_leaf(self, i: int) -> bool:
        return i != ROOT and not self.children(i)

    def lineage(self, i: int) -> list[int]:
        """The pool, its parent, and so on, without the root."""
        found = []
        while i != ROOT:
            found.append(i)
            i = self.nodes[i].parent
        return found

    def with_node(self, i: int, node: Node) -> Tree:
        return replace(self, nodes=(*self.nodes[:i], node, *self.nodes[i + 1 :]))

    def times(self, factor: int) -> Tree:
        return Tree(tuple(node.times(factor) for node in self.nodes), self.capacity * factor)

    def snapshot(self, kind: str = "memory") -> Snapshot:
        pools = [_config(i, node, kind) for i, node in enumerate(self.nodes)]
        loads = {
            pool_id(i): Load(
                *(
                    Resources(**{kind: amount})
                    for amount in (node.allocation, node.demand, node.slack_allocation, node.slack_demand)
                )
            )
            for i, node in enumerate(self.nodes)
            if self.is_leaf(i)
        }
        return Snapshot(pools, Resources(**{kind: self.capacity}), self.capacity, loads)


@dataclass(frozen=True, slots=True)
class Given:
    """What a tree's pools are entitled to, by their places."""

    total: dict[int, int]
    slack: dict[int, int]
    non_slack: dict[int, int]


def given_in(tree: Tree, kind: str = "memory") -> Given:
    found = entitlements(tree.snapshot(kind))
    places = range(ROOT, len(tree.nodes))
    return Given(
        {i: getattr(found[pool_id(i)].total, kind) for i in places},
        {i: getattr(found[pool_id(i)].slack, kind) for i in places},
        {i: getattr(non_slack(found[pool_id(i)]), kind) for i in places},
    )


def non_slack(entitled: Entitlement) -> Resources:
    """Return the part for tasks that are not revocable: slack cpu is no part of the total."""
    return entitled.total - replace(entitled.slack, cpu=0)


def pool_id(i: int) -> PoolId:
    return ROOT_POOL if i == ROOT else f"pool-{i}"


def _config(i: int, node: Node, kind: str) -> PoolConfig:
    kind_config = KindConfig(
        node.reservation,
        node.limit,
        node.share,
        ReservationType.STATIC if node.static else ReservationType.ELASTIC,
    )
    return PoolConfig(
        pool_id(i), str(i), pool_id(node.parent), {kind: kind_config}, slack_limit_percent=node.slack_percent
    )


amounts = st.one_of(st.sampled_from((0, 1, 2, 7, 20, 100)), st.integers(0, 10_000))

_FAVOURITES = (0, 0, 0, 1, 2, 7, 20, 20, 50, 100, 100, 1000)
AMOUNTS = (*(_FAVOURITES * 6)[:64], *range(128), *range(37, 37 * 65, 37))
"""One for each byte."""
_PERCENTS = (None, 0.0, 12.5, 50.0, 100.0)
_BYTES = 10
_MOST = 8
"""Nodes in a tree."""


def _node(i: int, code: bytes, shares: Sequence[float]) -> Node:
    """One draw for a node, not ten: drawing takes most of a test's time."""
    parent, share, static, percent, *some = code
    reservation, limit, allocation, demand, slack_allocation, slack_demand = (AMOUNTS[each] for each in some)
    return Node(
        parent=parent % (i + 1) - 1,
        reservation=reservation,
        limit=2 * limit,
        share=shares[share % len(shares)],
        static=static % 3 == 2,
        allocation=allocation,
        demand=demand,
        slack_allocation=slack_allocation,
        slack_demand=slack_demand,
        slack_percent=_PERCENTS[percent % len(_PERCENTS)],
    )


def forced_trees(shares: Sequence[float] = SHARES) -> st.SearchStrategy[Tree]:
    """All trees that an administrator can force: limits below reservations, children above their parents."""

    def tree(count: int, code: bytes, percent: int) -> Tree:
        nodes = [_node(i, code[i * _BYTES : (i + 1) * _BYTES], shares) for i in range(count)]
        most = sum(node.limit for node in nodes if node.parent == ROOT)
        return Tree(tuple(nodes), most * percent // 100)

    return st.builds(
        tree,
        st.integers(2, _MOST),
        st.binary(min_size=_BYTES * _MOST, max_size=_BYTES * _MOST),
        st.integers(0, 120),
    )


@st.composite
def sound_trees(draw: st.DrawFn) -> Tree:
    """Trees that pass the checks of configs, in a cluster that has as much as is reserved."""
    tree = draw(forced_trees())
    free, limits = {ROOT: tree.capacity}, {ROOT: tree.capacity}
    sound = []
    for i, node in enumerate(tree.nodes):
        reservation = min(node.reservation, free[node.parent])
        free[node.parent] -= reservation
        free[i] = reservation
        limits[i] = max(reservation, min(node.limit, limits[node.parent]))
        sound.append(replace(node, reservation=reservation, limit=limits[i]))
    return replace(tree, nodes=tuple(sound))


@st.composite
def twins(draw: st.DrawFn) -> tuple[Tree, dict[int, int]]:
    """A tree in which one pool, with all below it, is there twice; by the one's places the other's."""
    tree = draw(forced_trees())
    one = draw(st.integers(0, len(tree.nodes) - 1))
    copies: dict[int, int] = {}
    both = list(tree.nodes)
    for i, node in enumerate(tree.nodes):
        if one in tree.lineage(i):
            copies[i] = len(both)
            both.append(replace(node, parent=copies.get(node.parent, node.parent)))
    return replace(tree, nodes=tuple(both)), copies

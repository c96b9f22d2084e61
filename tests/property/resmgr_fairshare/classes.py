"""Trees of pools with demand in several classes of hosts, as hypothesis draws them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import strategies as st

from resmgr.core.entitlement.by_class import ClassedSnapshot, entitlements_by_class
from resmgr.core.entitlement.fair_share import Load
from tests.property.resmgr_fairshare.oracle import slack_need
from tests.property.resmgr_fairshare.trees import AMOUNTS, ROOT, Tree, forced_trees, pool_id, sound_trees

CLASSES = 3


@dataclass(frozen=True, slots=True)
class Classed:
    """The load of a node counts only where it is a leaf; its own amounts are those of class 0."""

    trees: tuple[Tree, ...]
    """One for each class: the same pools, with the load and the capacity of that class."""
    class_orders: tuple[int, ...] = ()
    """The classes in the order in which gangs of every leaf wait."""

    @property
    def tree(self) -> Tree:
        return self.trees[0]

    def need(self, i: int, at: int) -> int:
        """What is allocated or queued there and not revocable."""
        node = self.trees[at].nodes[i]
        return node.allocation + node.demand

    def first(self, i: int) -> int:
        """What is reserved and demanded, of a leaf without slack that is not STATIC."""
        node = self.tree.nodes[i]
        return min(sum(self.needs(i)), node.reservation, node.limit)

    def needs(self, i: int) -> list[int]:
        return [self.need(i, at) for at in range(len(self.trees))]

    def snapshot(self, kind: str = "memory") -> ClassedSnapshot:
        each = [tree.snapshot(kind) for tree in self.trees]
        loads: dict[str, dict[int, Load]] = {}
        for at, one in enumerate(each):
            for pool, load in one.loads.items():
                loads.setdefault(pool, {})[at] = load
        return ClassedSnapshot(
            each[0].pools,
            [one.capacity for one in each],
            [one.revocable_cpu for one in each],
            loads,
            dict.fromkeys(loads, self.class_orders),
        )


@dataclass(frozen=True, slots=True)
class GivenByClass:
    total: list[dict[int, int]]
    """By class, then by place."""
    slack: list[dict[int, int]]

    def sum(self, i: int) -> int:
        return sum(each[i] for each in self.total)


def given_by_class(classed: Classed, kind: str = "memory") -> GivenByClass:
    found = entitlements_by_class(classed.snapshot(kind))
    places = range(ROOT, len(classed.tree.nodes))
    return GivenByClass(
        [{i: getattr(each[pool_id(i)].total, kind) for i in places} for each in found.of_class],
        [{i: getattr(each[pool_id(i)].slack, kind) for i in places} for each in found.of_class],
    )


def in_classes(
    trees: st.SearchStrategy[Tree], flat: bool = False, firm: bool = False
) -> st.SearchStrategy[Classed]:
    """Leaves with demand in up to three classes. `flat`: no pool below another; `firm`: nothing revocable."""

    def made(tree: Tree, code: bytes, percents: tuple[int, ...], class_orders: tuple[int, ...]) -> Classed:
        if flat:
            tree = replace(tree, nodes=tuple(replace(node, parent=ROOT) for node in tree.nodes))
        if firm:
            tree = replace(tree, nodes=tuple(replace(node, static=False) for node in tree.nodes))
        return Classed(
            tuple(_of_class(tree, at, code[at::CLASSES], percents[at], firm) for at in range(CLASSES)),
            class_orders,
        )

    return st.builds(
        made,
        trees,
        st.binary(min_size=5 * CLASSES * 8, max_size=5 * CLASSES * 8),
        st.tuples(*[st.integers(0, 120)] * CLASSES),
        st.permutations(range(CLASSES)).map(tuple),
    )


def _of_class(tree: Tree, at: int, code: bytes, percent: int, firm: bool) -> Tree:
    nodes = []
    for i, node in enumerate(tree.nodes):
        there, *some = code[5 * i : 5 * i + 5]
        allocation, demand, slack, slack_demand = (AMOUNTS[each] if there % 2 else 0 for each in some)
        if firm:
            slack = slack_demand = 0
        nodes.append(
            replace(
                node,
                allocation=allocation,
                demand=demand,
                slack_allocation=slack,
                slack_demand=slack_demand,
            )
        )
    return Tree(tuple(nodes), tree.capacity * percent // 100)


def kept_at_most(classed: Classed, places: Iterable[int]) -> int:
    """The most that can be kept of all reservations: the least cut (Ford and Fulkerson), tried completely."""
    pools, classes = list(places), range(len(classed.trees))
    cuts = []
    for size in range(len(classes) + 1):
        for full in combinations(classes, size):
            beside = (
                min(classed.first(i), sum(classed.need(i, at) for at in classes if at not in full))
                for i in pools
            )
            cuts.append(sum(beside) + sum(classed.trees[at].capacity for at in full))
    return min(cuts)


forced = in_classes(forced_trees())
flat = in_classes(forced_trees(), flat=True, firm=True)
sound = in_classes(sound_trees(), firm=True)
__all__ = ["forced", "flat", "given_by_class", "kept_at_most", "slack_need", "sound"]

"""What holds of entitlement where there are several classes of hosts, in every tree of pools."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.property.resmgr_fairshare.classes import (
    CLASSES,
    Classed,
    flat,
    forced,
    given_by_class,
    kept_at_most,
    sound,
)
from tests.property.resmgr_fairshare.oracle import demand, exact
from tests.property.resmgr_fairshare.trees import ROOT, Tree, forced_trees, given_in, thorough

kinds = st.sampled_from(("cpu", "memory"))


@thorough
@given(forced, kinds)
def test_no_class_gives_more_than_it_has_and_limits_hold_over_all(classed: Classed, kind: str) -> None:
    found, tree = given_by_class(classed, kind), classed.tree
    for at, of in enumerate(classed.trees):
        total, slack = found.total[at], found.slack[at]
        assert total[ROOT] == of.capacity
        for parent in tree.parents():
            ours = tree.children(parent)
            assert all(total[i] >= 0 and slack[i] >= 0 for i in ours)
            assert sum(total[i] for i in ours) <= total[parent]
            if ours:
                assert sum(slack[i] for i in ours) <= slack[parent]
    for i, node in enumerate(tree.nodes):
        assert found.sum(i) <= node.limit


@thorough
@given(forced_trees(), st.integers(0, CLASSES - 1), kinds)
def test_where_one_class_has_all_it_is_divided_as_the_cluster(tree: Tree, at: int, kind: str) -> None:
    empty = Tree(
        tuple(
            replace(node, allocation=0, demand=0, slack_allocation=0, slack_demand=0) for node in tree.nodes
        ),
        0,
    )
    found = given_by_class(Classed(tuple(tree if each == at else empty for each in range(CLASSES))), kind)
    expected = given_in(tree, kind)
    assert found.total[at] == expected.total
    assert found.slack[at] == expected.slack
    assert not any(any(found.total[each].values()) for each in range(CLASSES) if each != at)


@thorough
@given(flat)
def test_as_much_of_the_reservations_is_kept_as_any_split_of_them_keeps(classed: Classed) -> None:
    found, pools = given_by_class(classed), range(len(classed.tree.nodes))
    kept = {
        i: min(
            classed.first(i),
            sum(min(each[i], need) for each, need in zip(found.total, classed.needs(i), strict=True)),
        )
        for i in pools
    }
    most = kept_at_most(classed, pools)
    dust = len(pools) * CLASSES if most < sum(map(classed.first, pools)) else 0
    assert most - dust <= sum(kept.values()) <= most


@thorough
@given(sound)
def test_reservations_are_kept_on_every_level_where_classes_have_enough(classed: Classed) -> None:
    """Whatever the split: each class has what all pools that demand some of it reserve and demand."""
    tree = classed.tree
    whole = replace(
        tree,
        nodes=tuple(
            replace(node, allocation=0, demand=sum(classed.needs(i))) for i, node in enumerate(tree.nodes)
        ),
    )
    needed = sum(min(demand(whole, i), tree.nodes[i].reservation) for i in tree.children(ROOT))
    ample = replace(
        classed, trees=tuple(replace(of, capacity=max(of.capacity, needed)) for of in classed.trees)
    )
    found = given_by_class(ample)
    for i, node in enumerate(tree.nodes):
        leaves = [leaf for leaf in range(len(tree.nodes)) if tree.is_leaf(leaf) and i in tree.lineage(leaf)]
        wanted = [sum(classed.need(leaf, at) for leaf in leaves) for at in range(CLASSES)]
        kept = sum(min(each[i], want) for each, want in zip(found.total, wanted, strict=True))
        dust = 0 if tree.is_leaf(i) else CLASSES * len(tree.nodes)
        assert kept >= min(demand(whole, i), node.reservation) - dust


@thorough
@given(flat)
def test_what_a_class_has_left_is_demanded_by_no_pool_that_may_have_it(classed: Classed) -> None:
    """But for the dust: fewer thousandths than there are pools, for each class."""
    found, pools = given_by_class(classed), range(len(classed.tree.nodes))
    dust = CLASSES * len(pools)
    for at, of in enumerate(classed.trees):
        left = of.capacity - sum(found.total[at][i] for i in pools)
        for i in pools:
            wants = classed.need(i, at) - found.total[at][i]
            room = classed.tree.nodes[i].limit - found.sum(i)
            assert min(left, wants, room) <= dust, (at, i, left, wants, room)


@thorough
@given(flat, st.lists(st.integers(0, CLASSES - 1), min_size=8, max_size=8))
def test_pools_of_one_class_get_the_exact_max_min_of_their_class(classed: Classed, of: list[int]) -> None:
    trees = tuple(
        replace(
            tree,
            nodes=tuple(
                node if of[i] == at else replace(node, allocation=0, demand=0)
                for i, node in enumerate(tree.nodes)
            ),
        )
        for at, tree in enumerate(classed.trees)
    )
    found = given_by_class(Classed(trees, classed.class_orders))
    for at, tree in enumerate(trees):
        ours = [i for i in range(len(tree.nodes)) if of[i] == at]
        scarce = tree.capacity < sum(demand(tree, i) for i in ours)
        expected = exact(tree)
        for i in ours:
            if scarce:
                assert 0 <= expected[i] - found.total[at][i] < 1
            else:
                assert found.total[at][i] >= demand(tree, i)

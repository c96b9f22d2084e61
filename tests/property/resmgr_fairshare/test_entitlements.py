"""What holds of entitlement in every tree of pools, the forced ones included."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.property.resmgr_fairshare.oracle import demand, exact, slack_need
from tests.property.resmgr_fairshare.trees import (
    ROOT,
    Tree,
    amounts,
    forced_trees,
    given_in,
    sound_trees,
    thorough,
    twins,
)


@thorough
@given(forced_trees())
def test_never_above_a_limit_and_children_never_above_their_parent(tree: Tree) -> None:
    found = given_in(tree)
    assert found.total[ROOT] == tree.capacity
    assert all(0 <= found.total[i] <= node.limit for i, node in enumerate(tree.nodes))
    for parent in tree.parents():
        for held in (found.total, found.slack, found.non_slack):
            assert sum(held[i] for i in tree.children(parent)) <= held[parent]


@thorough
@given(forced_trees())
def test_is_the_exact_amount_but_for_less_than_a_thousandth_per_level(tree: Tree) -> None:
    found, expected = given_in(tree), exact(tree)
    for i in range(len(tree.nodes)):
        assert 0 <= expected[i] - found.total[i] < len(tree.lineage(i))


@thorough
@given(sound_trees())
def test_reservation_is_met_where_it_is_demanded(tree: Tree) -> None:
    found = given_in(tree)
    for i, node in enumerate(tree.nodes):
        assert found.total[i] >= min(demand(tree, i), node.reservation)
        if node.static:
            assert found.total[i] >= node.reservation


@thorough
@given(forced_trees())
def test_the_rest_is_demanded_by_no_pool_that_may_have_it(tree: Tree) -> None:
    """But for the dust: fewer thousandths than there are children."""
    found = given_in(tree)
    for parent in tree.parents():
        ours = tree.children(parent)
        left = found.total[parent] - sum(found.total[i] for i in ours)
        if any(found.total[i] < tree.nodes[i].limit for i in ours):
            assert left < len(ours) or not ours
        if any(found.total[i] < demand(tree, i) for i in ours):
            assert all(found.total[i] <= demand(tree, i) for i in ours)


@thorough
@given(twins())
def test_equal_siblings_get_equal_amounts(tree_and_twins: tuple[Tree, dict[int, int]]) -> None:
    tree, copies = tree_and_twins
    for kind in ("cpu", "memory"):
        found = given_in(tree, kind)
        for held in (found.total, found.slack, found.non_slack):
            assert all(held[one] == held[other] for one, other in copies.items())


@thorough
@given(forced_trees(shares=(1.0, 1.0, 0.0, 2.0, 3.0)), st.integers(0, 39), st.sampled_from((2, 3, 10, 1000)))
def test_scaling_all_numbers_scales_the_result(tree: Tree, odd: int, factor: int) -> None:
    """To within as many thousandths as the factor per level, since each level is rounded down once.

    Slack limits are rounded too: here all percentages of the reservations are whole.
    """
    whole = tree.times(40)
    tree = replace(whole, capacity=whole.capacity + odd)
    for kind in ("cpu", "memory"):
        found, scaled = given_in(tree, kind), given_in(tree.times(factor), kind)
        for i in range(len(tree.nodes)):
            tolerance = factor * len(tree.lineage(i))
            assert abs(scaled.total[i] - found.total[i] * factor) <= tolerance
            if kind == "cpu" or tree.is_leaf(i):
                assert abs(scaled.slack[i] - found.slack[i] * factor) <= tolerance


@thorough
@given(forced_trees(), amounts, amounts, st.data())
def test_more_demand_in_one_never_gives_a_sibling_more(
    tree: Tree, more: int, more_slack: int, data: st.DataObject
) -> None:
    """Of what their parent has; where that grows by the demand, all its children share in it."""
    leaf = data.draw(st.sampled_from([i for i in range(len(tree.nodes)) if tree.is_leaf(i)]))
    node = tree.nodes[leaf]
    hungrier = tree.with_node(
        leaf, replace(node, demand=node.demand + more, slack_demand=node.slack_demand + more_slack)
    )
    before, after = given_in(tree).total, given_in(hungrier).total
    for i in tree.lineage(leaf):
        parent = tree.nodes[i].parent
        assert after[i] >= before[i]
        if after[parent] == before[parent]:
            others = [other for other in tree.children(parent) if other != i]
            assert all(after[other] <= before[other] for other in others)
    top = tree.lineage(leaf)[-1]
    elsewhere = [i for i in range(len(tree.nodes)) if tree.lineage(i)[-1] != top]
    assert all(after[i] <= before[i] for i in elsewhere)


@thorough
@given(forced_trees())
def test_slack_is_what_non_slack_leaves_up_to_the_need(tree: Tree) -> None:
    found = given_in(tree)
    for i, node in enumerate(tree.nodes):
        assert found.slack[i] + found.non_slack[i] == found.total[i]
        if tree.is_leaf(i):
            over = found.total[i] - node.allocation - node.demand
            assert found.slack[i] == max(0, min(over, slack_need(node)))
        else:
            assert found.slack[i] == sum(found.slack[child] for child in tree.children(i))


@thorough
@given(forced_trees())
def test_revocable_cpu_is_dealt_in_the_order_of_allocation_demand_rest(tree: Tree) -> None:
    found = given_in(tree, "cpu")
    held, wanted = _slack_sums(tree)
    assert found.non_slack == found.total
    for parent in tree.parents():
        ours = tree.children(parent)
        left = found.slack[parent] - sum(found.slack[i] for i in ours)
        assert left >= 0
        assert not ours or left < len(ours)
        if sum(held[i] for i in ours) > found.slack[parent]:
            assert all(found.slack[i] <= held[i] for i in ours)
        else:
            assert all(found.slack[i] >= held[i] for i in ours)
        if any(found.slack[i] < wanted[i] for i in ours):
            assert all(found.slack[i] <= wanted[i] for i in ours)


def _slack_sums(tree: Tree) -> tuple[dict[int, int], dict[int, int]]:
    """Slack allocated, and allocated or wanted, in each pool and below it."""
    held, wanted = {}, {}
    for i in range(len(tree.nodes)):
        leaves = [leaf for leaf in range(len(tree.nodes)) if tree.is_leaf(leaf) and i in tree.lineage(leaf)]
        held[i] = sum(tree.nodes[leaf].slack_allocation for leaf in leaves)
        wanted[i] = held[i] + sum(tree.nodes[leaf].slack_demand for leaf in leaves)
    return held, wanted

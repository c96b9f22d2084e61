"""The rule of entitlement without any step saved: claimants sorted, amounts bounded by `min` and `max`.

The results are the same to the last thousandth, which `oracle`, in fractions, only tells within rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from resmgr.core.entitlement.water_fill import cut, weights_of
from tests.property.resmgr_fairshare.oracle import demand, first, slack_need
from tests.property.resmgr_fairshare.trees import ROOT, Tree


def filled(amount: int, demands: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Serve one claimant after the other, in the order of demand / weight."""
    given = [0] * len(demands)
    claimants = sorted(
        (i for i, want in enumerate(demands) if want), key=lambda i: _level(demands, weights, i)
    )
    weight = sum(weights[i] for i in claimants)
    for at, i in enumerate(claimants):
        if demands[i] * weight > amount * weights[i]:
            for j in claimants[at:]:
                given[j] = amount * weights[j] // weight
            break
        given[i] = demands[i]
        amount -= demands[i]
        weight -= weights[i]
    return given


def _level(demands: Sequence[int], weights: Sequence[int], i: int) -> Fraction:
    return Fraction(demands[i], weights[i])


def dealt(amount: int, demands: Sequence[int], weights: Sequence[int]) -> list[int]:
    if sum(demands) <= amount:
        return list(demands)
    heavy = [want if weight else 0 for want, weight in zip(demands, weights, strict=True)]
    left = amount - sum(heavy)
    if left < 0:
        return filled(amount, heavy, weights)
    light = [0 if weight else want for want, weight in zip(demands, weights, strict=True)]
    return _sums(heavy, filled(left, light, [1] * len(light)))


def divided(
    amount: int, demands: Sequence[int], firsts: Sequence[int], limits: Sequence[int], weights: Sequence[int]
) -> list[int]:
    rest = amount - sum(firsts)
    if rest < 0:
        return cut(amount, firsts)
    granted = _sums(firsts, dealt(rest, _differences(demands, firsts), weights))
    spare = max(0, amount - sum(demands))
    return _sums(granted, dealt(spare, _differences(limits, demands), weights))


def divided_slack_cpu(
    amount: int, held: Sequence[int], requested: Sequence[int], weights: Sequence[int]
) -> list[int]:
    rest = amount - sum(held)
    if rest < 0:
        return cut(amount, held)
    granted = dealt(rest, requested, weights)
    rest = max(0, rest - sum(requested))
    return _sums(_sums(held, granted), dealt(rest, [rest] * len(held), weights))


def total(tree: Tree) -> dict[int, int]:
    """Return the entitlement to a kind other than cpu by place."""
    amounts = {ROOT: tree.capacity}
    for parent in _downwards(tree):
        ours = tree.children(parent)
        nodes = [tree.nodes[i] for i in ours]
        firsts, demands = [first(tree, i) for i in ours], [demand(tree, i) for i in ours]
        weights = weights_of(tuple([node.share for node in nodes]))
        parts = divided(amounts[parent], demands, firsts, [node.limit for node in nodes], weights)
        amounts.update(zip(ours, parts, strict=True))
    return amounts


def slack(tree: Tree) -> dict[int, int]:
    """Return the part of that for revocable tasks."""
    whole = total(tree)

    def of(i: int) -> int:
        if not tree.is_leaf(i):
            return sum(map(of, tree.children(i)))
        node = tree.nodes[i]
        return max(0, min(whole[i] - node.allocation - node.demand, slack_need(node)))

    return {i: of(i) for i in whole}


def revocable(tree: Tree) -> dict[int, int]:
    """Return the entitlement to slack cpu."""

    def held(i: int) -> int:
        return tree.nodes[i].slack_allocation if tree.is_leaf(i) else sum(map(held, tree.children(i)))

    def requested(i: int) -> int:
        return tree.nodes[i].slack_demand if tree.is_leaf(i) else sum(map(requested, tree.children(i)))

    amounts = {ROOT: tree.capacity}
    for parent in _downwards(tree):
        ours = tree.children(parent)
        weights = weights_of(tuple([tree.nodes[i].share for i in ours]))
        parts = divided_slack_cpu(amounts[parent], [*map(held, ours)], [*map(requested, ours)], weights)
        amounts.update(zip(ours, parts, strict=True))
    return amounts


def _downwards(tree: Tree) -> list[int]:
    """Return the root and all that have children: a parent's place is before those of its children."""
    return sorted(tree.parents())


def _sums(some: Sequence[int], others: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(some, others, strict=True)]


def _differences(some: Sequence[int], others: Sequence[int]) -> list[int]:
    return [one - other for one, other in zip(some, others, strict=True)]

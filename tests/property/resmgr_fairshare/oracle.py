"""Behaviour 7.2 a second time, by raising a level step by step, in fractions and without rounding."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.property.resmgr_fairshare.trees import ROOT, Node, Tree


def slack_need(node: Node) -> int:
    percent = Fraction(20) if node.slack_percent is None else Fraction(str(node.slack_percent))
    return min(node.slack_allocation + node.slack_demand, int(node.reservation * percent / 100))


def demand(tree: Tree, i: int) -> int:
    """What the pool counts with its parent."""
    node = tree.nodes[i]
    if tree.is_leaf(i):
        wanted = node.allocation + node.demand + slack_need(node)
    else:
        wanted = sum(demand(tree, child) for child in tree.children(i))
    if node.static:
        wanted = max(wanted, node.reservation)
    return min(wanted, node.limit)


def first(tree: Tree, i: int) -> int:
    return min(demand(tree, i), tree.nodes[i].reservation)


def exact(tree: Tree) -> dict[int, Fraction]:
    amounts = {ROOT: Fraction(tree.capacity)}
    for parent in tree.parents():
        ours = tree.children(parent)
        amounts.update(zip(ours, _divided(tree, ours, amounts[parent]), strict=True))
    return amounts


def _divided(tree: Tree, ours: Sequence[int], amount: Fraction) -> list[Fraction]:
    firsts = [first(tree, i) for i in ours]
    if sum(firsts) > amount:
        return [amount * each / sum(firsts) for each in firsts]
    got = [Fraction(each) for each in firsts]
    shares = [Fraction(str(tree.nodes[i].share)) for i in ours]
    left = raised(got, [demand(tree, i) for i in ours], shares, amount - sum(firsts))
    raised(got, [tree.nodes[i].limit for i in ours], shares, left)
    return got


def raised(
    got: list[Fraction], bounds: Sequence[int], shares: Sequence[Fraction], left: Fraction
) -> Fraction:
    """Raise `got` up to the bounds, by share, those without a share last; what is left."""
    for with_share in (True, False):
        rates = [share if with_share else Fraction(share == 0) for share in shares]
        while left > 0:
            rising = [i for i, rate in enumerate(rates) if rate > 0 and got[i] < bounds[i]]
            if not rising:
                break
            step = min((bounds[i] - got[i]) / rates[i] for i in rising)
            step = min(step, left / sum(rates[i] for i in rising))
            for i in rising:
                got[i] += step * rates[i]
                left -= step * rates[i]
    return left

"""Steps that are saved change no result: the same thousandths as by the rule written out in full."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from resmgr.core.entitlement.slack import divide_slack_cpu
from resmgr.core.entitlement.water_fill import deal, divide
from tests.property.resmgr_fairshare import formula
from tests.property.resmgr_fairshare.trees import AMOUNTS, Tree, forced_trees, given_in, thorough

Claimant = tuple[int, int, int, int]
_MANY = 40
claimants = st.binary(min_size=4, max_size=4 * _MANY).map(
    lambda code: [tuple(code[at : at + 4]) for at in range(0, len(code) - 3, 4)]
)
"""For each one three amounts and a weight: up to 40 of them, so that some are sorted and some are not."""
parts_of_1000 = st.integers(0, 1_200)
SIXTEEN_AND_ONE = [(20, 40, 60, at % 4) for at in range(17)]


@thorough
@given(claimants, parts_of_1000)
@example(SIXTEEN_AND_ONE, 500)
@example(SIXTEEN_AND_ONE[1:], 500)
def test_an_amount_is_dealt_as_written(some: list[Claimant], part: int) -> None:
    demands, weights = [AMOUNTS[each[0]] for each in some], [each[3] % 4 for each in some]
    amount = sum(demands) * part // 1000
    assert deal(amount, demands, weights) == formula.dealt(amount, demands, weights)


@thorough
@given(claimants, parts_of_1000)
def test_a_pool_is_divided_as_written(some: list[Claimant], part: int) -> None:
    amounts = [sorted(AMOUNTS[code] for code in each[:3]) for each in some]
    firsts, demands, limits = (list(each) for each in zip(*amounts, strict=True))
    amount, weights = sum(limits) * part // 1000, [each[3] % 4 for each in some]
    expected = formula.divided(amount, demands, firsts, limits, weights)
    assert divide(amount, demands, firsts, limits, weights) == expected


@thorough
@given(claimants, parts_of_1000)
def test_slack_cpu_is_divided_as_written(some: list[Claimant], part: int) -> None:
    held, requested = [AMOUNTS[each[0]] for each in some], [AMOUNTS[each[1]] for each in some]
    amount, weights = (sum(held) + sum(requested)) * part // 800, [each[3] % 4 for each in some]
    expected = formula.divided_slack_cpu(amount, held, requested, weights)
    assert divide_slack_cpu(amount, held, requested, weights) == expected


@thorough
@given(forced_trees())
def test_a_tree_is_entitled_as_written(tree: Tree) -> None:
    found = given_in(tree)
    assert found.total == formula.total(tree)
    assert found.slack == formula.slack(tree)
    assert given_in(tree, "cpu").slack == formula.revocable(tree)

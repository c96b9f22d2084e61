"""Dividing one amount: small cases worked out by hand."""

from __future__ import annotations

import pytest

from resmgr.core.entitlement.water_fill import cut, deal, divide, weights_of


@pytest.mark.parametrize(
    ("amount", "wants", "weights", "got"),
    [
        (0, [5, 5], [1, 1], [0, 0]),
        (10, [], [], []),
        (10, [5, 5], [1, 1], [5, 5]),
        (100, [5, 5], [1, 1], [5, 5]),
        (10, [2, 100, 100], [1, 1, 1], [2, 4, 4]),
        (10, [2, 3, 100], [1, 1, 1], [2, 3, 5]),
        (10, [100, 100, 100], [1, 1, 1], [3, 3, 3]),
        (12, [100, 100], [1, 3], [3, 9]),
        (12, [100, 8], [1, 3], [4, 8]),
        (12, [1, 100, 100], [5, 1, 1], [1, 5, 5]),
        (10, [0, 100], [7, 1], [0, 10]),
    ],
)
def test_each_gets_its_demand_or_the_level(
    amount: int, wants: list[int], weights: list[int], got: list[int]
) -> None:
    assert deal(amount, wants, weights) == got


@pytest.mark.parametrize(
    ("amount", "wants", "weights", "got"),
    [
        (10, [20, 20], [0, 1], [0, 10]),
        (10, [20, 10], [0, 1], [0, 10]),
        (10, [20, 4], [0, 1], [6, 4]),
        (10, [20, 1, 4], [0, 0, 1], [5, 1, 4]),
        (10, [20, 20], [0, 0], [5, 5]),
        (0, [20, 20], [0, 0], [0, 0]),
    ],
)
def test_claimants_without_weight_are_served_last_and_equally(
    amount: int, wants: list[int], weights: list[int], got: list[int]
) -> None:
    assert deal(amount, wants, weights) == got


def test_order_is_exact_where_floats_are_not() -> None:
    """Both are satisfied at levels that differ by less than a float resolves."""
    n = 10**18
    assert deal(3 * n + 60, [n + 50, n, 10 * n], [n, n, n]) == [n + 30, n, n + 30]


def test_amounts_and_weights_have_no_bound() -> None:
    assert deal(10**400, [10**400, 10**400], [1, 10**300]) == [10**100 - 1, 10**400 - 10**100]


@pytest.mark.parametrize(
    ("amount", "claims", "got"),
    [
        (9, [6, 12], [3, 6]),
        (18, [6, 12], [6, 12]),
        (0, [6, 12], [0, 0]),
        (0, [0, 0], [0, 0]),
        (10, [1, 1, 1], [1, 1, 1]),
        (2, [1, 1, 1], [0, 0, 0]),
    ],
)
def test_cut_in_proportion(amount: int, claims: list[int], got: list[int]) -> None:
    assert cut(amount, claims) == got


@pytest.mark.parametrize(
    ("shares", "weights"),
    [
        ([], []),
        ([0.7], [1]),
        ([0.0], [0]),
        ([2.5, 2.5], [1, 1]),
        ([0.1, 0.3], [1, 3]),
        ([1.0, 0.0, 4.0], [1, 0, 4]),
        ([6.0, 4.0], [3, 2]),
        ([1e308, 5e-324], [2 * 10**631, 1]),
    ],
)
def test_weights_are_the_ratio_of_the_shares(shares: list[float], weights: list[int]) -> None:
    assert weights_of(tuple(shares)) == tuple(weights)


@pytest.mark.parametrize(
    ("amount", "got"),
    [
        (0, [0, 0]),
        (15, [5, 10]),
        (30, [10, 20]),
        (40, [15, 25]),
        (60, [30, 30]),
        (70, [35, 35]),
        (1000, [50, 35]),
    ],
)
def test_first_assignments_then_unmet_demand_then_the_rest(amount: int, got: list[int]) -> None:
    assert divide(amount, demands=[30, 30], firsts=[10, 20], limits=[50, 35], weights=[1, 1]) == got

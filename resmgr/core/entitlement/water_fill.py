"""Division of one amount among claimants by weighted max-min fairness, in exact integer arithmetic.

`deal` gives each claimant min(demand, level * weight) of a single resource, with the one level at which
nothing is left. It sorts once by demand / weight, the level at which a claimant is satisfied, and raises the
level until the next one cannot be satisfied (water-filling). Sources: D. Bertsekas and R. Gallager, *Data
Networks*, 2nd ed., 1992, 6.5.2 (max-min fairness, progressive filling); B. Radunović and J.-Y. Le Boudec, *A
Unified Framework for Max-Min and Min-Max Fairness with Applications*, IEEE/ACM Trans. Networking 15(5), 2007
(water-filling, weights).

Each amount is rounded down by itself. So equal claimants get equal amounts, the sum never exceeds the amount,
and the order of exact results is also the order of rounded ones. Where the amount is not enough, fewer units
than there are claimants remain undivided. Python's integers bound neither amounts nor weights. numpy is not
faster here: groups of siblings are small, and products of amounts and weights exceed 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from operator import add, sub

_FEW = 16
"""Claimants up to which passes over all who are not satisfied are quicker than to sort them."""


def divide(
    amount: int, demands: list[int], firsts: list[int], limits: list[int], weights: Sequence[int]
) -> list[int]:
    """Return each child's part of a pool's entitlement to one kind (docs/behaviour/pools.md, Entitlement).

    Per child: its demand, its first assignment, its limit and its weight (from its share), with 0 <= first <=
    demand <= limit. The sum of the results is at most `amount`. It is less only by rounding, where `amount`
    is not enough for all demands, or where all children are at their limits.
    """
    spare = amount - sum(demands)
    if spare >= 0:
        room = list(map(sub, limits, demands))
        return list(map(add, demands, deal(spare, room, weights)))
    rest = amount - sum(firsts)
    if rest < 0:
        return cut(amount, firsts)
    unmet = list(map(sub, demands, firsts))
    return list(map(add, firsts, _share(rest, unmet, weights)))


def deal(amount: int, demands: list[int], weights: Sequence[int]) -> list[int]:
    """Return min(demand, level * weight) for each claimant, rounded down. No argument is negative.

    Claimants of weight 0 get nothing until all others are satisfied; the rest is divided equally among them.
    """
    return list(demands) if sum(demands) <= amount else _share(amount, demands, weights)


def even(amount: int, weights: Sequence[int]) -> list[int]:
    """Do `deal` for claimants each of whom demands all of `amount`."""
    whole = sum(weights)
    if whole:
        return [amount * weight // whole for weight in weights]
    return [amount // len(weights)] * len(weights)


def _share(amount: int, demands: list[int], weights: Sequence[int]) -> list[int]:
    """Do `deal` for an `amount` below the sum of the demands."""
    if 0 not in weights:
        return _fill(amount, demands, weights)
    heavy = [demand if weight else 0 for demand, weight in zip(demands, weights, strict=True)]
    left = amount - sum(heavy)
    if left < 0:
        return _fill(amount, heavy, weights)
    light = [0 if weight else demand for demand, weight in zip(demands, weights, strict=True)]
    spread = _fill(left, light, [1] * len(light))
    return list(map(add, heavy, spread))


def cut(amount: int, claims: Sequence[int]) -> list[int]:
    """Return the claims, reduced in proportion and rounded down if they exceed `amount` together."""
    total = sum(claims)
    if total <= amount:
        return list(claims)
    return [amount * claim // total for claim in claims]


@lru_cache(maxsize=16_384)
def weights_of(shares: tuple[float, ...]) -> tuple[int, ...]:
    """Return integers in the ratio of the shares, which are finite and not negative.

    A share counts as its shortest decimal, so that 0.1 and 0.3 are exactly 1 to 3.
    """
    if len(set(shares)) <= 1:
        return tuple([1 if share else 0 for share in shares])
    ratios = [decimal_ratio(share) for share in shares]
    common = math.lcm(*(denominator for _, denominator in ratios))
    whole = [numerator * (common // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole)
    return tuple([weight // divisor for weight in whole])


@lru_cache(maxsize=4096)
def decimal_ratio(number: float) -> tuple[int, int]:
    """Return numerator and denominator of the shortest decimal for a finite number."""
    return Decimal(repr(float(number))).as_integer_ratio()


def _fill(amount: int, demands: list[int], weights: Sequence[int]) -> list[int]:
    """Do `deal` for an `amount` below the sum of the demands; those of weight 0 demand nothing."""
    claimants = [i for i, demand in enumerate(demands) if demand]
    if len(claimants) > _FEW:
        return _fill_in_order(amount, demands, weights)
    given = [0] * len(demands)
    weight = 0
    for i in claimants:
        weight += weights[i]
    while True:
        unmet, left, others = list[int](), amount, weight
        for i in claimants:
            demand = demands[i]
            if demand * weight > amount * weights[i]:
                unmet.append(i)
            else:
                given[i] = demand
                left -= demand
                others -= weights[i]
        if len(unmet) == len(claimants):
            break
        claimants, amount, weight = unmet, left, others
    for i in claimants:
        given[i] = amount * weights[i] // weight
    return given


def _fill_in_order(amount: int, demands: list[int], weights: Sequence[int]) -> list[int]:
    """Do `_fill` in a time that grows with n log n."""
    claimants = _by_level(demands, weights)
    weight = sum(weights[i] for i in claimants)
    given = [0] * len(demands)
    for at, i in enumerate(claimants):
        if demands[i] * weight > amount * weights[i]:
            for j in claimants[at:]:
                given[j] = amount * weights[j] // weight
            break
        given[i] = demands[i]
        amount -= demands[i]
        weight -= weights[i]
    return given


def _by_level(demands: list[int], weights: Sequence[int]) -> list[int]:
    """Return the claimants with a demand in the exact order of demand / weight.

    Two different fractions with denominators below 2**b differ by more than 2**-2b, so that multiplied
    by 2**2b they are in order even when rounded down.
    """
    claimants = [i for i, demand in enumerate(demands) if demand]
    heaviest = max(weights, default=0)
    if heaviest <= 1:
        return sorted(claimants, key=demands.__getitem__)
    bits = 2 * heaviest.bit_length()
    return sorted(claimants, key=lambda i: (demands[i] << bits) // weights[i])

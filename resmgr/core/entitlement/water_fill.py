"""Dividing one amount among several who want some of it. Exact: whole numbers in, whole numbers out.

`deal` is weighted max-min fairness with bounded demands on a single resource: everybody gets
min(want, level * weight), with the one level at which nothing is left. It is found by sorting once by
want / weight, the level at which each is satisfied, and walking up until the next one can no longer be
(water-filling). Sources: D. Bertsekas and R. Gallager, *Data Networks*, 2nd ed., 1992, 6.5.2 (max-min
fairness, progressive filling); B. Radunović and J.-Y. Le Boudec, *A Unified Framework for Max-Min and
Min-Max Fairness with Applications*, IEEE/ACM Trans. Networking 15(5), 2007 (water-filling, weights).

Every amount is rounded down, each by itself, so that those who are alike get alike, no sum exceeds what is
dealt, and what holds for the exact amounts holds for the rounded ones: who gets at most as much before
rounding gets at most as much after it. The price is dust: of an amount that is not enough, fewer units than
there are takers stay undealt. Python's integers have no bound, so neither have amounts and weights. numpy
does not pay here: groups of siblings are small, and products of amounts and weights exceed 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from operator import add, sub


def divide(
    amount: int, demands: Sequence[int], firsts: Sequence[int], limits: Sequence[int], weights: Sequence[int]
) -> list[int]:
    """Return what each child gets of a pool's entitlement to one kind (docs/behaviour/pools.md, Entitlement).

    Per child: what it demands, what it gets first, its limit, its weight (from its share), with
    0 <= first <= demand <= limit. The results' sum is at most `amount`, and less only where it is not enough
    for all demands (by the dust) or all are at their limits.
    """
    rest = amount - sum(firsts)
    if rest < 0:
        return cut(amount, firsts)
    spare = amount - sum(demands)
    if spare < 0:
        unmet = list(map(sub, demands, firsts))
        return list(map(add, firsts, deal(rest, unmet, weights)))
    room = list(map(sub, limits, demands))
    return list(map(add, demands, deal(spare, room, weights)))


def deal(amount: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Weighted max-min: each gets min(want, level * weight), rounded down; `amount`, wants, weights >= 0.

    A weight of 0 gets nothing while anybody with a weight wants more; what is left then is dealt among those
    of weight 0 alike.
    """
    if sum(wants) <= amount:
        return list(wants)
    if 0 not in weights:
        return _fill(amount, wants, weights)
    heavy = [want if weight else 0 for want, weight in zip(wants, weights, strict=True)]
    left = amount - sum(heavy)
    if left < 0:
        return _fill(amount, heavy, weights)
    light = [0 if weight else want for want, weight in zip(wants, weights, strict=True)]
    spread = _fill(left, light, [1] * len(light))
    return list(map(add, heavy, spread))


def cut(amount: int, claims: Sequence[int]) -> list[int]:
    """Reduce the claims in proportion, rounded down, so that together they take at most `amount`."""
    total = sum(claims)
    if total <= amount:
        return list(claims)
    return [amount * claim // total for claim in claims]


def weights_of(shares: Sequence[float]) -> list[int]:
    """Whole numbers in the ratio of the shares, which are finite and >= 0.

    A share is taken for the decimal that it is written as, so that 0.1 and 0.3 are 1 to 3 exactly.
    """
    if len(set(shares)) <= 1:
        return [1 if share else 0 for share in shares]
    ratios = [decimal_ratio(share) for share in shares]
    common = math.lcm(*(denominator for _, denominator in ratios))
    whole = [numerator * (common // denominator) for numerator, denominator in ratios]
    divisor = math.gcd(*whole)
    return [weight // divisor for weight in whole]


@lru_cache(maxsize=4096)
def decimal_ratio(number: float) -> tuple[int, int]:
    """Numerator and denominator of the shortest decimal that is written for a finite number."""
    return Decimal(repr(float(number))).as_integer_ratio()


def _fill(amount: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """`deal` where `amount` is less than the sum of the wants and only those with a weight want something."""
    takers = _by_level(wants, weights)
    weight = sum(weights[i] for i in takers)
    got = [0] * len(wants)
    for at, i in enumerate(takers):
        if wants[i] * weight > amount * weights[i]:
            for j in takers[at:]:
                got[j] = amount * weights[j] // weight
            break
        got[i] = wants[i]
        amount -= wants[i]
        weight -= weights[i]
    return got


def _by_level(wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Who wants something, by want / weight, compared exactly.

    Two different fractions with denominators below 2**b differ by more than 2**-2b, so that multiplied
    by 2**2b they are in order even when rounded down.
    """
    takers = [i for i, want in enumerate(wants) if want]
    heaviest = max(weights, default=0)
    if heaviest <= 1:
        return sorted(takers, key=wants.__getitem__)
    bits = 2 * heaviest.bit_length()
    return sorted(takers, key=lambda i: (wants[i] << bits) // weights[i])

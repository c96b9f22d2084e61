"""Division of one amount, for any demands and amounts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from resmgr.core.entitlement.water_fill import deal, divide, weights_of
from tests.property.resmgr_fairshare.oracle import raised
from tests.property.resmgr_fairshare.trees import AMOUNTS, amounts, thorough

large = st.one_of(amounts, st.integers(0, 10**20))
shares = st.one_of(st.sampled_from((0.0, 1.0, 0.1, 3.0)), st.floats(0, 1e308, allow_subnormal=True))
takers = st.lists(st.tuples(large, shares), max_size=8)


@dataclass(frozen=True, slots=True)
class Claims:
    firsts: list[int]
    demands: list[int]
    limits: list[int]
    weights: list[int]

    def divided(self, amount: int) -> list[int]:
        return divide(amount, self.demands, self.firsts, self.limits, self.weights)


def _claims(code: bytes) -> Claims:
    some = [sorted(AMOUNTS[each] for each in code[at : at + 3]) for at in range(0, len(code) - 3, 4)]
    firsts, demands, limits = (list(each) for each in zip(*some, strict=True))
    return Claims(firsts, demands, limits, [each % 4 for each in code[3::4]])


claims = st.binary(min_size=4, max_size=24).map(_claims)


@thorough
@given(large, takers)
def test_each_gets_the_exact_level_rounded_down(amount: int, some: list[tuple[int, float]]) -> None:
    wants = [want for want, _ in some]
    expected = [Fraction(0)] * len(some)
    raised(expected, wants, [Fraction(str(share)) for _, share in some], Fraction(amount))
    got = deal(amount, wants, weights_of(tuple([share for _, share in some])))
    assert got == [int(each) for each in expected]


@thorough
@given(amounts, claims, st.integers(0), st.integers(0), st.integers(0))
def test_more_demand_in_one_never_gives_another_one_more(
    amount: int, some: Claims, which: int, more: int, more_first: int
) -> None:
    before = some.divided(amount)
    one = which % len(before)
    some.demands[one] += more % (some.limits[one] - some.demands[one] + 1)
    some.firsts[one] += more_first % (some.demands[one] - some.firsts[one] + 1)
    after = some.divided(amount)
    assert all(new <= old for i, (new, old) in enumerate(zip(after, before, strict=True)) if i != one)


@thorough
@given(amounts, amounts, claims)
def test_more_to_divide_never_gives_anybody_less(amount: int, more: int, some: Claims) -> None:
    before, after = some.divided(amount), some.divided(amount + more)
    assert all(new >= old for new, old in zip(after, before, strict=True))

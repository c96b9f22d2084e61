"""One check after the other: strikes, protection, limits, policies by pool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.model.states import TaskState
from resmgr.core.preemption.decide import Memory, Rules, pools_to_examine, prepare
from resmgr.core.preemption.over_entitlement import Strikes
from resmgr.core.preemption.protection import Allowance, protect
from resmgr.core.preemption.view import Candidates, PoolView, View
from tests.unit.resmgr_preemption.samples import amounts, decide, numbers, task, waiting

EIGHT = Candidates.of([task(i, started=float(i)) for i in range(8)])
OVER = PoolView("/a/b", allocation=amounts(8), entitlement=amounts(5), candidates=EIGHT)
FINE = replace(OVER, entitlement=amounts(8))


def check(pool: PoolView, memory: Memory, rules: Rules, now: float) -> tuple[list[int], Memory]:
    view, memory = prepare(View((pool,)), memory, rules, now)
    taken, memory = decide(view, memory, rules, now)
    return numbers(taken), memory


def test_five_checks_in_a_row() -> None:
    memory, seen = Memory(), []
    for at, pool in enumerate([OVER] * 4 + [FINE] + [OVER] * 6):
        victims, memory = check(pool, memory, Rules(), 60.0 * at)
        seen.append(len(victims))
    assert seen == [0] * 9 + [3, 3]


def test_strikes_start_again_for_a_pool_that_was_not_over() -> None:
    strikes = Strikes().counted({"/a", "/b"}).counted({"/a"})
    assert (strikes.of("/a"), strikes.of("/b")) == (2, 0)


def test_no_more_than_the_limit_in_any_minute() -> None:
    rules, memory, seen = Rules(strikes=1, per_minute=2), Memory(), []
    for at in range(0, 150, 30):
        victims, memory = check(OVER, memory, rules, float(at))
        seen.append(len(victims))
    assert seen == [2, 0, 2, 0, 2]


def test_an_allowance_counts_what_was_taken_for_a_minute() -> None:
    allowance = Allowance(5).after(3, 0.0).after(1, 30.0)
    assert [allowance.left(now) for now in (30.0, 59.9, 60.0, 90.0)] == [1, 1, 4, 5]


def test_a_minimum_run_time_protects_the_whole_gang() -> None:
    rows = [task(0, started=0.0), task(1, started=90.0, gang=9), task(2, started=0.0, gang=9)]
    pool = replace(OVER, allocation=amounts(3), entitlement=amounts(0), candidates=Candidates.of(rows))
    assert check(pool, Memory(), Rules(strikes=1, minimum_run=60.0), 100.0)[0] == [0]
    assert check(pool, Memory(), Rules(strikes=1, minimum_run=60.0), 150.0)[0] == [1, 2, 0]


def test_what_does_not_run_is_not_protected() -> None:
    rows = Candidates.of([task(0, state=TaskState.PLACING, started=99.0)])
    assert protect(rows, 60.0, 100.0).eligible.tolist() == [True]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({}, ("cross_pool", "same_pool")),
        ({"/a": ("same_pool",)}, ("same_pool",)),
        ({"/a": ("same_pool",), "/a/b": ()}, ()),
        ({"/": ("cross_pool",), "/a/bc": ()}, ("cross_pool",)),
    ],
)
def test_a_pool_has_the_policies_of_the_nearest_that_is_named(
    policies: dict[str, tuple[str, ...]], expected: tuple[str, ...]
) -> None:
    assert Rules(policies).of("/a/b") == expected


def test_policies_that_are_switched_off_take_nothing() -> None:
    waits = replace(OVER, queues=((waiting(99),),))
    assert check(waits, Memory(), Rules({"/a": ()}, strikes=1), 0.0)[0] == []


def test_only_pools_that_may_lose_tasks_are_examined() -> None:
    waits = replace(FINE, path="/w", queues=((waiting(99),),))
    view, _ = prepare(View((OVER, replace(FINE, path="/f"), waits)), Memory(), Rules(), 0.0)
    assert pools_to_examine(view, Rules()) == {"/w"}
    assert pools_to_examine(view, Rules(strikes=1)) == {"/w", "/a/b"}


def test_victims_across_pools_are_no_candidates_within_the_pool() -> None:
    pool = replace(OVER, room=amounts(-3), queues=((waiting(99, 1),),))
    victims, _ = check(pool, Memory(), Rules(strikes=1), 0.0)
    assert victims == [7, 6, 5, 4]


def test_the_budget_is_one_for_both_policies() -> None:
    pool = replace(OVER, room=amounts(-3), queues=((waiting(99, 1),),))
    assert check(pool, Memory(), Rules(strikes=1, per_minute=3), 0.0)[0] == [7, 6, 5]

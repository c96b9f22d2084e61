"""What holds of the victims in every view. The rules are restated here over plain lists of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from resmgr.core.preemption.cross_pool import CrossPoolPolicy
from resmgr.core.preemption.decide import Memory, Rules, prepare
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.same_pool import SamePoolPolicy
from resmgr.core.preemption.view import Candidate, PoolView, View
from resmgr.core.state.amounts import NOTHING
from tests.property.resmgr_preemption.views import cost, eligible, pools, sides, thorough
from tests.unit.resmgr_preemption.samples import decide, victims

Leaf = tuple[PoolView, list[Candidate]]
Gang = list[Candidate]


def members(chosen: Iterable[Victim], rows: Sequence[Candidate]) -> list[Gang]:
    by_run = {row.run: row for row in rows}
    return [[by_run[run] for run in victim.runs] for victim in chosen]


def together(gangs: Iterable[Gang]) -> list[int]:
    return [sum(amounts) for amounts in zip([0] * 8, *map(sides, gangs), strict=True)]


def target(pool: PoolView, rows: Sequence[Candidate]) -> list[int]:
    """What can be freed of the excess."""
    return [min(*both) for both in zip(pool.excess(), together(eligible(rows)), strict=True)]


def covers(gangs: Iterable[Gang], need: Sequence[int]) -> bool:
    return all(freed >= amount for freed, amount in zip(together(gangs), need, strict=True))


@thorough
@given(pools())
def test_gangs_are_taken_whole_and_only_eligible_ones(leaf: Leaf) -> None:
    pool, rows = leaf
    may = [sorted(gang) for gang in eligible(rows)]
    for policy in (CrossPoolPolicy(), SamePoolPolicy()):
        found = [sorted(gang) for gang in members(victims(policy, pool), rows)]
        assert all(gang in may for gang in found)
        assert len({row.run for gang in found for row in gang}) == sum(map(len, found))


@thorough
@given(pools())
def test_frees_the_excess_or_all_that_can_be_freed_of_it(leaf: Leaf) -> None:
    pool, rows = leaf
    found = members(victims(CrossPoolPolicy(), pool), rows)
    assert covers(found, target(pool, rows))


@thorough
@given(pools())
def test_nothing_is_taken_that_could_be_left(leaf: Leaf) -> None:
    pool, rows = leaf
    taken = victims(CrossPoolPolicy(), pool)
    found = members(taken, rows)
    for gang in found:
        assert not covers([other for other in found if other is not gang], target(pool, rows))
    for victim, gang in zip(taken, found, strict=True):
        needed = [freed for freed, over in zip(sides(gang), pool.excess(), strict=True) if over and freed]
        assert len(victim.kinds) == len(needed) > 0


@thorough
@given(pools())
def test_no_victim_has_a_cheaper_substitute(leaf: Leaf) -> None:
    pool, rows = leaf
    found = members(victims(CrossPoolPolicy(), pool), rows)
    left = [gang for gang in eligible(rows) if sorted(gang) not in [sorted(each) for each in found]]
    for gang in found:
        for other in left:
            if cost(other) < cost(gang):
                instead = [each for each in found if each is not gang]
                assert not covers([*instead, other], target(pool, rows))
    assert [cost(gang) for gang in found] == sorted(map(cost, found))


@thorough
@given(pools())
def test_same_pool_takes_lower_priorities_for_gangs_that_it_serves(leaf: Leaf) -> None:
    pool, rows = leaf
    taken = victims(SamePoolPolicy(), pool)
    highest = max((gang.priority for queue in pool.queues for gang in queue), default=0)
    assert all(row.priority < highest for gang in members(taken, rows) for row in gang)
    if taken:
        freed = together(members(taken, rows))
        room = [*pool.room, *pool.slack_room]
        counted = [freed[0], *(freed[i] + freed[i + 4] for i in range(1, 4)), *freed[4:]]
        has = [have + more for have, more in zip(room, counted, strict=True)]
        first = [queue[0] for queue in pool.queues if queue]
        assert any(
            all(
                not ask or ask <= amount
                for ask, amount in zip(
                    (*gang.charge.entitled, *(gang.charge.slack or NOTHING)), has, strict=True
                )
            )
            for gang in first
        )


@thorough
@given(
    st.lists(st.tuples(pools(), st.integers(0, 40)), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(0, 150),
)
def test_limits_and_protection_hold_in_every_minute(
    checks: list[tuple[Leaf, int]], per_minute: int, minimum_run: int
) -> None:
    rules = Rules(strikes=1, minimum_run=float(minimum_run), per_minute=per_minute)
    memory, now, taken = Memory(), 200.0, list[tuple[float, int]]()
    for (pool, rows), pause in checks:
        now += pause
        view, memory = prepare(View((pool,)), memory, rules, now)
        chosen, memory = decide(view, memory, rules, now)
        gangs = members(chosen, rows)
        taken.append((now, sum(map(len, gangs))))
        running = [row for gang in gangs for row in gang if row.state.name == "RUNNING"]
        assert all(now - row.started >= minimum_run for row in running)
        assert sum(count for when, count in taken if now - when < 60.0) <= per_minute


@thorough
@given(pools("/a"), pools("/b"))
def test_the_same_view_gives_the_same_victims(one: Leaf, other: Leaf) -> None:
    view = View((one[0], replace(other[0], strikes=0)))
    rules = Rules(strikes=1)
    assert decide(view, Memory(), rules, 0.0) == decide(view, Memory(), rules, 0.0)


@thorough
@given(pools("/a"))
def test_both_policies_never_take_a_task_twice(leaf: Leaf) -> None:
    pool, rows = leaf
    found = members(decide(View((pool,)), Memory(), Rules(), 0.0)[0], rows)
    runs = [row.run for gang in found for row in gang]
    assert len(set(runs)) == len(runs)

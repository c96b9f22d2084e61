"""Waiting gangs of higher priority take the place of lower ones in their own pool."""

from __future__ import annotations

from dataclasses import replace

from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.same_pool import SamePoolPolicy
from resmgr.core.preemption.view import Candidates, PoolView
from tests.unit.resmgr_preemption.samples import amounts, numbers, task, victims, waiting


def found(pool: PoolView) -> list[Victim]:
    return victims(SamePoolPolicy(), pool)


def taken(pool: PoolView) -> list[int]:
    return numbers(found(pool))


FOUR = Candidates.of([task(i, 1, 1, priority=i) for i in range(4)])


def test_takes_the_lowest_that_make_room() -> None:
    assert taken(PoolView("/a", candidates=FOUR, queues=((waiting(9, 2, priority=3),),))) == [0, 1]


def test_takes_nothing_of_equal_or_higher_priority() -> None:
    assert taken(PoolView("/a", candidates=FOUR, queues=((waiting(9, 1, priority=0),),))) == []


def test_takes_nothing_where_that_is_not_enough() -> None:
    assert taken(PoolView("/a", candidates=FOUR, queues=((waiting(9, 3, priority=2),),))) == []


def test_counts_the_room_there_is() -> None:
    pool = PoolView("/a", candidates=FOUR, queues=((waiting(9, 2, 1, priority=9),),), room=amounts(1, 1))
    assert taken(pool) == [0]
    assert taken(replace(pool, room=amounts(2, 1))) == []


def test_the_first_that_cannot_be_served_blocks_its_queue_only() -> None:
    blocked, small = waiting(8, 9, priority=9), waiting(9, 1, priority=9)
    assert taken(PoolView("/a", candidates=FOUR, queues=((blocked, small), ()))) == []
    assert taken(PoolView("/a", candidates=FOUR, queues=((blocked,), (small,)))) == [0]


def test_several_gangs_take_one_after_the_other() -> None:
    gangs = waiting(7, 1, priority=9), waiting(8, 2, priority=9)
    assert taken(PoolView("/a", candidates=FOUR, queues=(gangs,))) == [0, 1, 2]


def test_what_is_freed_beyond_need_serves_the_next() -> None:
    large = Candidates.of([task(0, 3)])
    gangs = waiting(7, 1), waiting(8, 2)
    assert taken(PoolView("/a", candidates=large, queues=(gangs,))) == [0]


def test_makes_no_room_for_what_another_check_keeps_waiting() -> None:
    fixed, controller = waiting(8, 2, preemptible=False), waiting(9, 2, controller=True)
    for gang in (fixed, controller):
        pool = PoolView("/a", candidates=FOUR, queues=((gang,),))
        enough = replace(pool, fixed_room=amounts(2), controller_room=amounts(2))
        assert taken(enough) == [0, 1]
        assert taken(replace(enough, fixed_room=amounts(1), controller_room=amounts(1))) == []


def test_a_revocable_gang_needs_slack() -> None:
    firm, slack = task(1, 2, 2), task(2, 2, 2, priority=3, revocable=True)
    pool = PoolView(
        "/a",
        candidates=Candidates.of([firm, slack]),
        queues=((waiting(9, 2, revocable=True),),),
        room=amounts(0, 9),
    )
    assert taken(pool) == [2]


def test_a_firm_gang_gets_no_cpu_from_a_revocable_task() -> None:
    slack = Candidates.of([task(2, 2, 2, revocable=True)])
    assert taken(PoolView("/a", candidates=slack, queues=((waiting(9, 1),),))) == []
    assert taken(PoolView("/a", candidates=slack, queues=((waiting(9, 0, 1),),))) == [2]


def test_keeps_the_budget_by_taking_none() -> None:
    pool = PoolView("/a", candidates=FOUR, queues=((waiting(9, 2),),))
    assert taken(replace(pool, budget=1, largest=9)) == []
    assert taken(replace(pool, budget=2, largest=9)) == [0, 1]


def test_names_the_beneficiary_and_the_reason() -> None:
    (victim,) = found(PoolView("/a", candidates=FOUR, queues=((waiting(9, 1),),)))
    assert (victim.pool, victim.benefits, victim.kinds) == ("/a", "/a", ("cpu",))
    assert victim.reason == (
        "11111111-1111-1111-1111-111111111111-9-1 of priority 5 waits in /a, which is at its entitlement"
        " (1 core short); this one has priority 0"
    )


def test_what_is_for_revocable_tasks_is_no_room_for_others() -> None:
    """There is room of all, but none of what is not slack: only what is not revocable makes some."""
    rows = [task(1, 1, 2, revocable=True), task(2, 1, 2, priority=1), task(3, 1, 2, priority=2)]
    pool = PoolView(
        "/a",
        candidates=Candidates.of(rows),
        queues=((waiting(9, 1, 2),),),
        room=amounts(9, 9),
        firm_room=amounts(9, 0),
    )
    (victim,) = found(pool)
    assert numbers([victim]) == [2]
    assert victim.kinds == ("memory",)
    assert "(non-slack 2 MB memory short)" in victim.reason
    assert taken(replace(pool, firm_room=amounts(9, 2))) == []
    assert taken(replace(pool, queues=((waiting(9, 1, 2, revocable=True),),), slack_room=amounts(9, 9))) == []

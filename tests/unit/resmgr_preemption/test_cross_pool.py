"""Pools that are over their entitlement give back the excess."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.model.states import TaskState
from resmgr.core.preemption.cross_pool import CrossPoolPolicy
from resmgr.core.preemption.view import Candidate, Candidates, PoolView
from tests.unit.resmgr_preemption.samples import amounts, numbers, task, victims

READY, PLACING, RUNNING = TaskState.READY, TaskState.PLACING, TaskState.RUNNING


def over(*tasks: Candidate, cpu: float = 0, memory: float = 0, gpu: float = 0) -> PoolView:
    """A leaf that holds these tasks and is over by so much, for the fifth time."""
    firm = [sum(row.amount[kind] for row in tasks if not row.revocable) for kind in range(4)]
    bound = [have - more for have, more in zip(firm, amounts(cpu, memory, gpu), strict=True)]
    slack = [sum(row.amount[kind] for row in tasks if row.revocable) for kind in range(4)]
    return PoolView(
        "/a",
        allocation=(firm[0], firm[1], firm[2], firm[3]),
        entitlement=(bound[0], bound[1], bound[2], bound[3]),
        slack_allocation=(slack[0], slack[1], slack[2], slack[3]),
        slack_entitlement=(slack[0], slack[1], slack[2], slack[3]),
        strikes=5,
        candidates=Candidates.of(tasks),
    )


def taken(pool: PoolView, *others: PoolView) -> list[int]:
    return numbers(victims(CrossPoolPolicy(), pool, *others))


def test_takes_nothing_before_the_fifth_strike() -> None:
    pool = over(task(1), cpu=1)
    assert taken(replace(pool, strikes=4)) == []
    assert taken(pool) == [1]


def test_takes_nothing_from_a_pool_without_the_policy() -> None:
    assert taken(replace(over(task(1), cpu=1), policies=("same_pool",))) == []


@pytest.mark.parametrize(
    ("cheaper", "dearer"),
    [
        (task(1, state=READY, priority=9), task(2, state=PLACING)),
        (task(1, state=PLACING, priority=9), task(2, state=RUNNING)),
        (task(1, priority=1, started=1.0), task(2, priority=2, started=5.0)),
        (task(1, started=5.0), task(2, started=1.0)),
        (task(1, 2, started=5.0), task(2, 1, started=5.0)),
    ],
    ids=["ready first", "placing before running", "lower priority", "latest start", "larger"],
)
def test_order(cheaper: Candidate, dearer: Candidate) -> None:
    for rows in ((cheaper, dearer), (dearer, cheaper)):
        assert taken(over(*rows, cpu=1)) == [1]


@pytest.mark.parametrize(
    "state",
    [TaskState.PLACED, TaskState.LAUNCHING, TaskState.LAUNCHED, TaskState.STARTING, TaskState.RESERVED],
)
def test_states_that_are_left_alone(state: TaskState) -> None:
    assert taken(over(task(1, state=state), task(2), cpu=2)) == [2]


def test_never_takes_what_is_not_preemptible() -> None:
    assert taken(over(task(1, preemptible=False), task(2), cpu=2)) == [2]


def test_takes_only_what_helps_a_kind_that_is_still_over() -> None:
    helps_not, gpu = task(1, 1, priority=0), task(2, 1, gpu=1, priority=5)
    assert taken(over(helps_not, gpu, gpu=1)) == [2]


def test_drops_what_later_turns_out_unnecessary() -> None:
    small, large = [task(i, 1, started=9.0) for i in range(3)], task(9, 4, started=1.0)
    assert taken(over(*small, large, cpu=4)) == [9]


def test_slack_excess_takes_revocable_tasks_and_other_excess_the_others() -> None:
    firm, slack = task(1, 2, 2), task(2, 2, 2, revocable=True)
    assert taken(over(firm, slack, cpu=1)) == [1]
    short_of_slack = replace(over(firm, slack), slack_entitlement=amounts(1, 2))
    assert taken(short_of_slack) == [2]


def test_a_gang_is_taken_whole_or_not_at_all() -> None:
    pair = task(1, gang=7, started=9.0), task(2, gang=7, started=9.0)
    assert taken(over(*pair, task(3), cpu=1)) == [1, 2]
    held = pair[0], replace_state(pair[1], TaskState.LAUNCHED)
    assert taken(over(*held, task(3), cpu=1)) == [3]
    fixed = pair[0], pair[1]._replace(preemptible=False)
    assert taken(over(*fixed, task(3), cpu=1)) == [3]


def test_a_gang_is_as_dear_as_its_dearest_member() -> None:
    gang = task(1, gang=7, priority=0), task(2, gang=7, priority=9)
    assert taken(over(*gang, task(3, priority=5), cpu=1)) == [3]


def test_takes_all_there_is_where_it_is_not_enough() -> None:
    assert taken(over(task(1), task(2), task(3, preemptible=False), cpu=3)) == [1, 2]


def test_keeps_the_budget() -> None:
    pool = over(task(1, started=3), task(2, started=2), task(3, started=1), cpu=3)
    assert taken(replace(pool, budget=2, largest=2)) == [1, 2]
    assert taken(replace(pool, budget=0, largest=2)) == []


def test_a_gang_beyond_the_largest_budget_makes_place_for_others() -> None:
    gang = [task(i, gang=7, started=9.0) for i in range(3)]
    assert taken(replace(over(*gang, task(8), cpu=1), budget=2, largest=2)) == [8]


def test_names_the_beneficiary_and_the_reason() -> None:
    pool = over(task(1, started=3), task(2, started=2), task(3, started=1), cpu=3)
    first = PoolView("/b", amounts(1), amounts(2), demand=amounts(5))
    second = PoolView("/c", amounts(0), amounts(1), demand=amounts(5))
    found = victims(CrossPoolPolicy(), pool, first, second)
    assert [victim.benefits for victim in found] == ["/b", "/c", ""]
    assert found[0].kinds == ("cpu",)
    assert found[0].frees.values() == amounts(1)
    assert found[0].reason == (
        "/a was over its entitlement in 5 checks in a row (cpu: allocation 3 cores > entitlement 0 cores);"
        " /b waits for its share"
    )
    assert found[2].reason.endswith("no pool waits for it now")


def replace_state(row: Candidate, state: TaskState) -> Candidate:
    return row._replace(state=state)

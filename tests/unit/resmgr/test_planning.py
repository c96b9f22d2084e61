"""What would become of gangs that are not enqueued."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.model.pool import PoolConfig
from peloton.model.states import TaskType
from resmgr.core.admission.checks import Check, FailedCheck
from resmgr.core.planning.admission import AdmissionPlan, PlannedGangs, plan_admission
from resmgr.core.planning.preemption import plan_preemption
from resmgr.core.preemption.policy import Victim
from tests.unit.resmgr.world import OTHER_JOB, World, kinds, needs, whole


def gangs(cpu: float, count: int, priority: int = 0, **of: Any) -> PlannedGangs:
    return PlannedGangs(needs(cpu, priority=priority, **of).charge, priority, TaskType.BATCH, count)


def planned(world: World, *groups: PlannedGangs, pool: str = "a") -> AdmissionPlan:
    return plan_admission(world.scheduler, world.pool(pool), groups)


def victims(world: World, *groups: PlannedGangs, pool: str = "a") -> list[Victim]:
    plan = planned(world, *groups, pool=pool)
    return whole(plan_preemption(world.scheduler, world.pool(pool), groups, plan, world.now))


def test_as_many_as_fit_are_admitted_and_nothing_changes() -> None:
    world = World()
    world.launch(*range(40))
    before = (world.cpu(), world.pool().total_demand(), world.pool().entitlement)
    first, second = planned(world, gangs(2, 29), gangs(1, 4)).groups
    assert (first.count, first.reason) == (29, "")
    assert (second.count, second.reason) == (
        2,
        "cpu: allocation 100 cores + gang 1 core > entitlement 100 cores in /a",
    )
    assert (world.cpu(), world.pool().total_demand(), world.pool().entitlement) == before


def test_amounts_of_a_large_cluster_are_told_without_an_exponent() -> None:
    refused = FailedCheck(Check.ENTITLEMENT, "memory", 123_456_789_012, 4_096_500, 123_456_789_000, "/a")
    expected = "allocation 123,456,789.012 MB + gang 4,096.5 MB > entitlement 123,456,789 MB in /a"
    assert str(refused) == f"memory: {expected}"


@pytest.mark.parametrize("count", [1, 7, 100_000])
def test_a_plan_agrees_with_what_is_admitted_then(count: int) -> None:
    world = World()
    world.launch(*range(30))
    [group] = planned(world, gangs(3, count)).groups
    for instance in range(30, 30 + min(count, 50)):
        world.enqueue(instance, of=needs(3))
    world.admit()
    assert len(world.dequeue()) == group.count


def test_demand_that_another_pool_cannot_use_leaves_room() -> None:
    """A dry run said that gangs would wait which were admitted at once."""
    world = World(*(PoolConfig(name, name, "root", kinds(0)) for name in "ab"))
    world.launch(*range(50))
    world.enqueue(0, of=needs(60), pool="b", job=OTHER_JOB)
    world.admit()
    world.scheduler.entitle()
    assert world.pool("b").unusable
    [group] = planned(world, gangs(1, 30)).groups
    assert (group.count, group.reason) == (30, "")
    for instance in range(50, 80):
        world.enqueue(instance)
    world.scheduler.entitle()
    world.admit()
    assert len(world.dequeue()) == 30


def test_gangs_wait_behind_those_of_the_same_priority_and_pass_lower_ones() -> None:
    world = World()
    world.launch(*range(50))
    for instance in range(50, 53):
        world.enqueue(instance, of=needs(60, priority=1))
    world.admit()
    [behind] = planned(world, gangs(1, 5, priority=1)).groups
    assert (behind.count, behind.ahead) == (0, 3)
    assert (
        behind.reason.startswith("behind ")
        and "allocation 50 cores + gang 60 cores > entitlement" in behind.reason
    )
    [passing] = planned(world, gangs(1, 5, priority=2)).groups
    assert (passing.count, passing.reason) == (5, "")


def test_more_than_a_limit_is_refused() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(limit=10)))
    [group] = planned(world, gangs(11, 2)).groups
    assert (group.limited, group.count, group.reason) == (
        True,
        0,
        "cpu: gang 11 cores > limit 10 cores of /a",
    )


def test_tasks_of_lower_priority_would_be_preempted() -> None:
    world = World()
    world.launch(*range(10), of=needs(10))
    assert victims(world, gangs(10, 2)) == [], "of the same priority"
    taken = victims(world, gangs(15, 1, priority=1))
    assert len(taken) == 2
    assert taken[0].reason.startswith("the planned job-0-1 of priority 1 waits in /a")
    assert [world.state(i).name for i in range(10)] == ["RUNNING"] * 10


def test_tasks_of_a_pool_above_its_share_would_be_preempted() -> None:
    world = World(
        PoolConfig("a", "a", "root", kinds(reservation=50)),
        PoolConfig("b", "b", "root", kinds(reservation=50)),
    )
    world.launch(*range(8), of=needs(10))
    [group] = planned(world, gangs(10, 4), pool="b").groups
    assert group.count == 2, "what is free"
    taken = victims(world, gangs(10, 4), pool="b")
    assert {(each.pool, each.benefits) for each in taken} == {("/a", "/b")}
    assert sum(each.frees.cpu for each in taken) == 20_000
    assert world.scheduler.preemptor.why(taken[0].runs[0]) is None, "it is a plan"

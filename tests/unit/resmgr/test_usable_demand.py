"""Demand that cannot be used does not count: gangs larger than what their pools are entitled to."""

from __future__ import annotations

import pytest

from peloton.model.host_class import HostClass
from peloton.model.pool import PoolConfig
from peloton.model.resources import ZERO, Resources
from peloton.model.states import TaskState
from resmgr.core.state.classes import ClassCapacity
from resmgr.core.state.limits import Limits
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, kinds, needs, whole

S = TaskState
THIRD_JOB = "33333333-3333-4333-8333-333333333333"


def pool(name: str, reservation: float, limit: float = 100, parent: str = "root") -> PoolConfig:
    return PoolConfig(name, name, parent, kinds(reservation, limit))


def halves() -> World:
    return World(pool("a", 50), pool("b", 50))


def states(world: World, job: str, *instances: int) -> set[TaskState]:
    return {world.task(instance, job).state for instance in instances}


def end(world: World, job: str, *instances: int) -> None:
    for instance in instances:
        world.scheduler.observe(world.task(instance, job).key, S.SUCCEEDED, world.now)


def wait(world: World, seconds: float = 1) -> None:
    world.later(seconds)


def two_gangs(
    world: World, sizes: tuple[float, float] = (35, 35), priorities: tuple[int, int] = (0, 0)
) -> None:
    """Gangs of two in a and b, queued in one moment of the scheduler before it decides, a's first."""
    world.enqueue(0, 1, of=needs(sizes[0], priority=priorities[0]))
    world.now += 1
    world.enqueue(0, 1, of=needs(sizes[1], priority=priorities[1]), pool="b", job=OTHER_JOB)
    wait(world)


def test_the_gang_that_waits_longer_is_admitted_and_the_other_one_after_it() -> None:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    two_gangs(world)
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    assert states(world, JOB, 0, 1) == {S.READY}
    assert states(world, OTHER_JOB, 0, 1) == {S.PENDING}
    end(world, JOB, 0, 1)
    wait(world)
    assert states(world, OTHER_JOB, 0, 1) == {S.READY}


def test_the_priority_within_a_pool_does_not_count_among_pools() -> None:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    two_gangs(world, priorities=(0, 3))
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    assert states(world, JOB, 0, 1) == {S.READY}
    assert states(world, OTHER_JOB, 0, 1) == {S.PENDING}


def run_first_of_two() -> World:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    two_gangs(world)
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    world.dequeue()
    world.place(0, 1)
    world.hand_over()
    for instance in (0, 1):
        world.observe(instance, S.RUNNING)
    return world


def check_preemption(world: World, times: int = 6) -> list[object]:
    found: list[object] = []
    for _ in range(times):
        wait(world, 60)
        found += whole(world.scheduler.preemptor.steps(world.now))
    return found


def test_a_gang_is_not_preempted_for_one_that_could_not_use_what_it_frees() -> None:
    assert check_preemption(run_first_of_two()) == []


def test_who_waits_is_told_the_entitlement_that_is_too_little() -> None:
    world = run_first_of_two()
    wait(world)
    waiting = world.task(0, OTHER_JOB)
    assert waiting.reason == "cpu: allocation 0 cores + gang 70 cores > entitlement 50 cores in /b"


def test_a_smaller_gang_that_comes_first_is_admitted_at_once() -> None:
    world = run_first_of_two()
    world.enqueue(0, of=needs(30, priority=5), pool="b", job=THIRD_JOB)
    world.scheduler.admit(world.now)
    assert states(world, THIRD_JOB, 0) == {S.READY}


def test_demand_within_a_reservation_takes_it_back() -> None:
    world = run_first_of_two()
    world.enqueue(*range(50), of=needs(1, priority=5), pool="b", job=THIRD_JOB)
    victims = check_preemption(world)
    assert len(victims) == 1
    assert world.pool("b").entitlement[0] == 50_000
    end(world, JOB, 0, 1)
    wait(world)
    assert states(world, THIRD_JOB, *range(50)) == {S.READY}


def test_what_another_pool_can_use_of_its_reservation_is_kept_for_it() -> None:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    world.enqueue(0, 1, of=needs(35))
    for instance in range(60):
        world.enqueue(instance, of=needs(1), pool="b", job=OTHER_JOB)
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    assert states(world, JOB, 0, 1) == {S.PENDING}
    assert world.cpu("b") == 60, "and what a cannot use is not left idle"


def test_a_pool_that_waits_for_its_own_tasks_keeps_its_reservation() -> None:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    world.enqueue(0, of=needs(30))
    world.enqueue(1, of=needs(30))
    for instance in range(60):
        world.enqueue(instance, of=needs(1), pool="b", job=OTHER_JOB)
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    wait(world)
    assert (world.cpu("a"), world.cpu("b")) == (30, 50)


def test_a_gang_waits_for_the_limit_of_a_pool_above_it() -> None:
    world = World(
        pool("p", 60, 60), pool("a", 30, 60, "p"), pool("b", 30, 60, "p"), pool("c", 40, 100), capacity=None
    )
    two_gangs(world, (20, 20))
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    assert states(world, JOB, 0, 1) == {S.READY}
    assert states(world, OTHER_JOB, 0, 1) == {S.PENDING}


def test_a_job_that_is_not_preemptible_keeps_waiting_for_its_reservation_and_stops_nobody() -> None:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    world.enqueue(0, 1, of=needs(35, preemptible=False))
    world.enqueue(0, 1, of=needs(35), pool="b", job=OTHER_JOB)
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    wait(world)
    assert states(world, JOB, 0, 1) == {S.PENDING}
    assert states(world, OTHER_JOB, 0, 1) == {S.READY}


@pytest.mark.parametrize("preemption", [True, False])
def test_tasks_larger_than_a_share_are_admitted_in_the_pools_in_turn(preemption: bool) -> None:
    """Three pools without reservations: a third of the cluster is too little for each of the tasks."""
    limits = Limits(preemption=preemption)
    world = World(pool("a", 0), pool("b", 0), pool("c", 0), capacity=None, limits=limits)
    for name, job in (("a", JOB), ("b", OTHER_JOB), ("c", THIRD_JOB)):
        for instance in range(3):
            world.enqueue(instance, of=needs(40), pool=name, job=job)
        world.now += 1
    world.scheduler.set_capacity(Resources.of(100, 1000, 1000, 10), ZERO)
    world.admit()
    wait(world)
    assert [world.cpu(name) for name in "abc"] == [40, 40, 0], "not both for a, though its gangs wait longer"
    end(world, JOB, 0)
    wait(world)
    assert [world.cpu(name) for name in "abc"] == [40, 40, 0], "a holds nothing, and waits longer than c"
    end(world, OTHER_JOB, 0)
    wait(world)
    assert [world.cpu(name) for name in "abc"] == [40, 40, 0]
    for job, instance in ((JOB, 1), (JOB, 2), (OTHER_JOB, 1), (OTHER_JOB, 2)):
        end(world, job, instance)
        wait(world)
    assert world.cpu("c") > 0


@pytest.mark.parametrize("classes", [False, True])
def test_the_rule_holds_in_each_class_of_hosts(classes: bool) -> None:
    world = World(pool("a", 50), pool("b", 50), capacity=None)
    two_gangs(world)
    of = {
        HostClass(): ClassCapacity(Resources.of(100, 1000, 1000), 0),
        HostClass(gpu=True): ClassCapacity(Resources.of(100, 1000, 1000, 10), 0),
    }
    world.scheduler.set_capacity(
        Resources.of(200, 2000, 2000, 10) if classes else Resources.of(100, 1000, 1000, 10),
        ZERO,
        of if classes else {},
    )
    world.admit()
    assert states(world, JOB, 0, 1) == {S.READY}
    assert states(world, OTHER_JOB, 0, 1) == {S.PENDING}

"""Rules of an administrator's own for entitlement and for the order of a queue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peloton.model.host_class import HostClass
from peloton.model.pool import PoolConfig
from peloton.model.resources import ZERO, Resources
from peloton.model.states import TaskType
from resmgr.core.planning.admission import PlannedGangs, plan_admission
from resmgr.core.planning.pools import plan_pool
from resmgr.core.state.classes import ClassCapacity
from resmgr.core.state.entitlement_policy import SharingPools
from resmgr.core.state.policies import Policies
from resmgr.core.state.queue_order import QueuedGang
from tests.unit.resmgr.world import OTHER_JOB, World, kinds, needs

A, B = PoolConfig("a", "a", "root", kinds()), PoolConfig("b", "b", "root", kinds())


def smallest_first(gang: QueuedGang) -> float:
    return gang.cpu


def ordered(*pools: PoolConfig, capacity: Resources | None = None) -> World:
    """A cluster without room, unless told otherwise."""
    return World(*pools, capacity=capacity or Resources(), policies=Policies(queue_order=smallest_first))


def waiting(world: World) -> list[list[int]]:
    return [[task.instance for task in gang.tasks] for gang in world.queues().pending]


def test_gangs_of_a_priority_are_tried_in_the_order_that_is_plugged_in() -> None:
    world = ordered()
    for instance, (cpu, priority) in enumerate([(4, 0), (1, 0), (2, 0), (1, 0), (9, 1)]):
        world.enqueue(instance, of=needs(cpu, priority=priority))
    assert waiting(world) == [[4], [1], [3], [2], [0]]
    assert world.queues().pending.gangs() == list(world.queues().pending)


def test_an_order_sees_a_gang_as_a_whole() -> None:
    seen: list[QueuedGang] = []

    def note(gang: QueuedGang) -> float:
        seen.append(gang)
        return 0.0

    world = World(capacity=Resources(), policies=Policies(queue_order=note))
    world.enqueue(0, 1, of=needs(3, priority=2, labels=(("team", "x"),)))
    (gang,) = seen
    assert (gang.pool, gang.priority, gang.size, gang.cpu) == ("/a", 2, 2, 6000)
    assert (gang.preemptible, gang.controller, gang.revocable) == (True, False, False)
    assert gang.labels == (("team", "x"),)


def test_a_gang_that_came_back_keeps_its_place() -> None:
    world = ordered(A, capacity=Resources.of(10, 1000, 1000))
    world.enqueue(0, of=needs(8))
    world.admit()
    world.dequeue()
    world.enqueue(1, of=needs(9))
    world.enqueue(2, of=needs(7))
    for _ in range(world.scheduler.limits.tries):
        world.fail(0)
        world.later(100.0)
        world.dequeue()
    assert world.task(0).gang is not None
    order = [gang.tasks[0].instance for gang in world.queues().pending]
    assert order == sorted(order, key=lambda each: world.task(each).needs.resources.cpu)


def test_a_plan_has_its_place_in_the_order() -> None:
    world = ordered(A, capacity=Resources.of(10, 1000, 1000))
    world.enqueue(0, of=needs(10))
    world.admit()
    for instance, cpu in enumerate((2, 6, 3), 1):
        world.enqueue(instance, of=needs(cpu))
    world.admit()
    planned = [PlannedGangs(needs(cpu).charge, 0, TaskType.BATCH, 1) for cpu in (1, 4)]
    first, second = (plan_admission(world.scheduler, world.pool(), [each]).groups[0] for each in planned)
    assert (first.ahead, second.ahead) == (0, 2)


@pytest.mark.parametrize("wrong", [float("nan"), "high", None])
def test_an_order_that_returns_no_number_ends_with_what_it_returned(wrong: Any) -> None:
    world = World(policies=Policies(queue_order=lambda gang: wrong))
    with pytest.raises(ValueError, match=r"order of a queue: .*should be a number"):
        world.enqueue(0)


def quarter(pools: SharingPools, capacity: Any) -> Any:
    """A quarter of the cluster for /a, the rest for all others."""
    found = np.tile(capacity, (len(pools.path), 1)).astype(float)
    found[pools.path.index("/a")] /= 4
    return found


def test_capacity_is_shared_as_is_plugged_in() -> None:
    world = World(A, B, policies=Policies(quarter))
    for instance in range(40):
        world.enqueue(instance)
    world.admit()
    assert world.cpu("a") == 25
    assert world.pool("b").entitlement[0] == 100_000
    assert "entitlement 25 cores in /a" in world.task(25).reason


def test_what_a_policy_sees_is_what_pools_hold_and_ask_for() -> None:
    seen: list[SharingPools] = []

    def note(pools: SharingPools, capacity: Any) -> Any:
        seen.append(pools)
        return pools.limit

    world = World(
        PoolConfig("d", "d", "root", kinds(reservation=30)),
        PoolConfig("a", "a", "d", kinds(limit=70)),
        PoolConfig("b", "b", "d", kinds()),
        policies=Policies(note),
    )
    world.launch(0, 1)
    world.enqueue(2, of=needs(60))
    world.scheduler.entitle()
    pools = seen[-1]
    assert list(pools.path) == ["/", "/d", "/d/a", "/d/b"]
    assert pools.parent.tolist() == [-1, 0, 1, 1]
    assert pools.held[:, 0].tolist() == [2000, 2000, 2000, 0]
    assert pools.wanted[:, 0].tolist() == [62_000, 62_000, 62_000, 0]
    assert pools.reservation[1, 0] == 30_000 and pools.limit[:3, 0].tolist() == [100_000, 500_000, 70_000]


def greedy(pools: SharingPools, capacity: Any) -> Any:
    return np.full(pools.limit.shape, 1e12)


def test_limits_and_the_capacity_hold_whatever_a_policy_returns() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(limit=10)), B, policies=Policies(greedy))
    assert [world.pool(each).entitlement[0] for each in ("root", "a", "b")] == [100_000, 10_000, 100_000]
    world = World(A, policies=Policies(lambda pools, capacity: -pools.limit - 1))
    assert world.pool("a").entitlement == (0, 0, 0, 0)


def test_an_entitlement_of_another_shape_ends_with_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"an array of shape \(4,\): should be \(2, 4\)"):
        World(A, policies=Policies(lambda pools, capacity: capacity))


def test_each_class_of_hosts_is_shared_by_itself() -> None:
    world = World(A, B, capacity=None, policies=Policies(quarter))
    plain, gpu = Resources.of(60, 600, 600), Resources.of(40, 400, 400, 8)
    classes = {HostClass(): ClassCapacity(plain), HostClass(gpu=True): ClassCapacity(gpu)}
    world.scheduler.set_capacity(plain + gpu, ZERO, classes)
    for instance in range(30):
        world.enqueue(instance)
    for instance in range(8):
        world.enqueue(instance, of=type(needs())(Resources.of(1, 1, 1, 1), preemptible=True), job=OTHER_JOB)
    world.admit()
    a = world.pool("a")
    assert a.in_class(HostClass()).used[0] == 15_000 and a.in_class(HostClass(gpu=True)).used[3] == 2000
    assert a.entitlement[0] == 25_000


def test_a_plan_of_a_pool_goes_by_the_same_rule() -> None:
    world = World(B, policies=Policies(quarter_of_new))
    effects = {each.path: each.after[0] for each in plan_pool(world.scheduler.tree, A)}
    assert effects["/a"] == 25_000


def quarter_of_new(pools: SharingPools, capacity: Any) -> Any:
    return quarter(pools, capacity) if "/a" in pools.path else pools.limit

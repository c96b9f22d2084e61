"""What is being done for tasks that wait: which pools give back, when, and what stands against it."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0.task import task_pb2
from peloton.model.pool import PoolConfig
from peloton.present.explanations import explanation_lines
from peloton.private.resmgr.explain import explain_pb2 as pb
from resmgr.core.explain.outlook import Excess
from resmgr.core.explain.queue_reasons import explain
from resmgr.core.preemption.decide import Rules
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.state.limits import Limits
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, kinds, needs, whole


def borrowed(world: World, preemptible: bool = True) -> None:
    """Pool a runs five tasks of 20 cpus, b has 50 of the 100 reserved and asks for 20 of them."""
    for instance in range(5):
        world.launch(instance, of=needs(20, preemptible=preemptible))
    for instance in (100, 101):
        world.enqueue(instance, of=needs(10), pool="b", job=OTHER_JOB)
    world.admit()
    world.dequeue()


def two_pools(limits: Limits | None = None, rules: Rules | None = None) -> World:
    world = World(
        PoolConfig("a", "a", "root", kinds()), PoolConfig("b", "b", "root", kinds(50, 500)), limits=limits
    )
    if rules is not None:
        world.scheduler.preemptor = Preemptor(world.scheduler.lifecycle, world.scheduler.sharing, rules)
    return world


def check(world: World, count: int = 1) -> None:
    for _ in range(count):
        world.later(60.0)
        whole(world.scheduler.preemptor.steps(world.now))


def of(world: World, instance: int, job: str = OTHER_JOB) -> list[Excess]:
    task = world.scheduler.registry.current(job, instance)
    assert task is not None
    [found] = explain(world.scheduler, [task])
    return [each for each in found.excesses if each.kind == "cpu"]


def test_the_checks_that_are_left_and_their_time_are_known() -> None:
    world = two_pools()
    borrowed(world)
    [excess] = of(world, 100)
    assert (excess.pool, excess.allocation, excess.entitlement) == ("/a", 100_000, 80_000)
    assert (excess.checks, excess.due, excess.leaving) == (5, 0.0, 0)
    check(world, 3)
    [excess] = of(world, 100)
    assert (excess.checks, excess.due) == (2, world.now + 120)


def test_preemption_that_is_under_way_is_told() -> None:
    world = two_pools()
    borrowed(world)
    check(world, 5)
    [excess] = of(world, 100)
    assert excess.leaving == 1


def test_a_running_task_waits_for_nothing() -> None:
    world = two_pools()
    borrowed(world)
    assert of(world, 0, JOB) == []


def test_a_pool_that_policies_or_preemptibility_protect_gives_nothing() -> None:
    protected = two_pools(rules=Rules(policies={"/a": ("same_pool",)}))
    borrowed(protected)
    assert [each.checks for each in of(protected, 100)] == [None]
    fixed = two_pools(limits=Limits(preemption=False))
    borrowed(fixed, preemptible=False)
    fixed.scheduler.lifecycle.limits = Limits()  # tasks of an earlier setting
    assert [each.checks for each in of(fixed, 100)] == [None]
    off = two_pools(limits=Limits(preemption=False))
    borrowed(off)
    assert of(off, 100) == []


def test_a_bound_of_its_own_pool_is_not_helped_by_others() -> None:
    world = World(PoolConfig("a", "a", "root", kinds(90, 500)), PoolConfig("b", "b", "root", kinds(10, 500)))
    for instance in range(5):
        world.launch(instance, of=needs(20))
    world.enqueue(100, of=needs(20), pool="b", job=OTHER_JOB)
    world.admit()
    task = world.scheduler.registry.current(OTHER_JOB, 100)
    assert task is not None
    [found] = explain(world.scheduler, [task])
    assert found.cause == "cpu: allocation 0 cores + gang 20 cores > entitlement 10 cores in /b"
    assert found.excesses == []


@pytest.mark.parametrize(
    ("excess", "text"),
    [
        ({"checks": 5}, "preemption after 5 checks: /a holds 60 cores and is entitled to 21 cores"),
        (
            {"checks": 2, "due": "2026-01-02T03:04:05.678Z"},
            "preemption at 2026-01-02T03:04:05Z or later: /a holds 60 cores and is entitled to 21 cores",
        ),
        (
            {"checks": 1, "leaving": 3, "slack": True},
            "preemption is under way, of 3 tasks: /a holds 60 cores of revocable tasks and is entitled to "
            "21 cores",
        ),
        (
            {"hosts": "hosts with GPUs"},
            "no preemption: /a holds 60 cores and is entitled to 21 cores on hosts with GPUs, but its tasks "
            "are not preemptible or its policies forbid it",
        ),
    ],
)
def test_what_a_person_reads(excess: dict[str, Any], text: str) -> None:
    found = pb.Explanation(state=task_pb2.PENDING, since="2026-01-02T03:04:00Z", pool="/b")
    found.excesses.add(pool="/a", kind="cpu", allocation=60, entitlement=21, **excess)
    assert text in explanation_lines(found)

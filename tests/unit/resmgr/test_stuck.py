"""Tasks that stay for longer than usual in a state that is meant to be short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from peloton.model.states import TaskState
from resmgr.core.monitoring import stuck
from resmgr.core.monitoring.stuck import USUAL_SECONDS, StuckSearch
from resmgr.drivers.loop import Driver
from resmgr.services.problems import stuck_problems
from tests.unit.resmgr.world import JOB, World


def found(world: World) -> list[tuple[TaskState, int, int, float]]:
    search = StuckSearch(world.scheduler, world.now)
    for _ in search.steps():
        pass
    return [(each.state, each.tasks, each.oldest.instance, each.seconds) for each in search.found()]


def test_what_runs_and_what_waits_in_a_queue_is_not_stuck() -> None:
    world = World()
    world.launch(0, 1)
    world.enqueue(2)
    world.now += 1e6
    assert found(world) == []


def test_the_longest_of_each_state_is_found() -> None:
    world = World()
    for instance in range(3):
        world.launch(instance)
        world.enqueue(10 + instance)
        world.admit()
        world.dequeue()
        world.place(10 + instance)
        world.hand_over()
        world.now += 100.0
    assert world.state(10) is TaskState.LAUNCHING
    assert found(world) == [(TaskState.LAUNCHING, 2, 10, 300.0)]
    world.observe(10, TaskState.LAUNCHED)
    assert found(world) == [(TaskState.LAUNCHING, 1, 11, 200.0)]
    world.now += USUAL_SECONDS[TaskState.LAUNCHED] + 1
    assert [(state, instance) for state, _, instance, _ in found(world)] == [
        (TaskState.LAUNCHING, 11),
        (TaskState.LAUNCHED, 10),
    ]


async def test_it_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "AT_ONCE", 1)  # others are served in between
    world = World()
    for instance in (4, 5):
        world.enqueue(instance)
        world.admit()
        world.dequeue()
        world.place(instance, host="h7")
        world.hand_over()
    world.now += 125.0
    driver = cast("Driver", SimpleNamespace(scheduler=world.scheduler, now=lambda: world.now))
    [problem] = await stuck_problems(driver)
    assert problem.text == (
        f"2 tasks stay LAUNCHING for longer than usual, the longest: {JOB}-4 has been LAUNCHING on h7 "
        "for 2 min 5 s"
    )
    assert problem.link == f"/jobs/{JOB}/instances/4" and "host manager leads" in problem.remedy

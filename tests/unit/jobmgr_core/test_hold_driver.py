"""Holds by the drivers: released also where the kill that makes them is queued or under way."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from typing import Any

import pytest

from jobmgr.drivers import holds
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from peloton.errors import Unavailable
from peloton.model.ids import task_id
from peloton.model.lockdown import Component
from peloton.model.states import TaskState
from peloton.model.workflow import WorkflowOptions
from storage.interface import Store
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.steps import FAST, next_leader, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState
IN_PLACE = WorkflowOptions(in_place=True)


class SlowWorld(World):
    """A world in which hosts are held only once `go` is set."""

    def __init__(self) -> None:
        super().__init__(runs_on)
        self.go = asyncio.Event()
        self.entered = asyncio.Event()

    async def KillAndReserveTasks(self, request: Any) -> Any:
        self.entered.set()
        await self.go.wait()
        return await super().KillAndReserveTasks(request)


async def updated(engine: Engine, count: int = 3, version: int = 2) -> None:
    """Begin an update in place of all instances at once."""
    new = replace(service(count, command=f"new {version}"), version=version)
    await Workflows(engine).replace(JOB, new, IN_PLACE)


async def test_a_stop_while_the_kill_is_under_way_releases_the_host(store: Store) -> None:
    world = SlowWorld()
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, service(3))
        await reach(engine, S.RUNNING, 3)
        world.hold = True
        await updated(engine)
        await world.entered.wait()
        await engine.stop(JOB, None)
        world.go.set()
        await reach(engine, S.KILLED, 3)
        await until(lambda: not world.held, "nothing is held")
        assert world.called("ReleaseHostsHeldForTasks")


async def test_a_stop_while_the_kill_is_queued_holds_nothing(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, service(3))
        await reach(engine, S.RUNNING, 3)
        world.hold = True
        await engine.lockdown.lock(Component.KILL)
        await updated(engine)
        await reach(engine, S.KILLING, 3)
        await engine.stop(JOB, None)
        await engine.lockdown.unlock(Component.KILL)
        await reach(engine, S.KILLED, 3)
        assert not world.called("KillAndReserveTasks") and not world.held


async def test_a_kill_that_fails_first_holds_in_the_end(store: Store) -> None:
    world = World(runs_on)
    world.failures["KillAndReserveTasks"] = deque([Unavailable("no leader")])
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, service(2))
        await reach(running.engine, S.RUNNING, 2)
        world.hold = True
        await updated(running.engine, 2)
        await reach(running.engine, S.PENDING, 2)
        await until(lambda: len(world.held) == 2, "hosts are held")
        assert sorted(world.held) == [task_id(JOB, 0), task_id(JOB, 1)]
        entries = world.called("KillAndReserveTasks")[-1].entries
        assert all(each.HasField("room") and each.HasField("freed") for each in entries)
        world.hold = False
        await reach(running.engine, S.RUNNING, 2)


async def test_the_comparison_releases_what_the_last_leader_left_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holds, "CHECK_SECONDS", 0.05)
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, service(3))
        await reach(running.engine, S.RUNNING, 3)
        world.hold = True
        await updated(running.engine)
        await reach(running.engine, S.PENDING, 3)
        await running.engine.stop(JOB, [0])
        await reach(running.engine, S.KILLED, 1)
    world.held[task_id(JOB, 0)] = "host-0"
    ended = task_id("00000000-0000-4000-8000-000000000000", 0)
    world.held[ended] = "host-0"
    async with Running(await next_leader(store), world) as running:
        await until(lambda: task_id(JOB, 0) not in world.held and ended not in world.held, "released")
        assert sorted(world.held) == [task_id(JOB, 1), task_id(JOB, 2)], "those that come back stay"
        assert isinstance(running.engine, Engine)

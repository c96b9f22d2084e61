"""What a lockdown holds back in the engine, and what goes on without it."""

from __future__ import annotations

import asyncio

import pytest

from jobmgr.engine.engine import Engine
from jobmgr.engine.lockdown import Lockdown
from jobmgr.engine.outbox import Queue
from peloton.model.lockdown import Component
from peloton.model.states import JobState, TaskState
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import count, ended
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until


def nothing_left(running: Running, world: World, *methods: str) -> None:
    assert not [method for method, _ in world.calls if method in methods]
    assert all(not task.done() for task in running.tasks)


@pytest.mark.parametrize("component", [Component.GOAL_STATE_ENGINE, Component.LAUNCH])
async def test_a_job_that_is_created_under_lockdown_runs_after_it(store: Store, component: Component) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.lockdown.lock(component)
        await engine.create_job(JOB, spec(3))
        if component is Component.LAUNCH:
            await until(lambda: count(engine, TaskState.PENDING) == 3, "the tasks are enqueued")
        else:
            await until(lambda: len(engine.outbox.enqueue), "the tasks are ready to be enqueued")
            nothing_left(running, world, "EnqueueGangs")
        await engine.lanes.flush()
        nothing_left(running, world, "LaunchTasks")
        await engine.lockdown.unlock(component)
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.SUCCEEDED


@pytest.mark.parametrize("component", [Component.GOAL_STATE_ENGINE, Component.KILL])
async def test_a_job_that_is_stopped_under_lockdown_is_killed_after_it(
    store: Store, component: Component
) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2))
        await until(lambda: count(engine, TaskState.RUNNING) == 2, "both run")
        await engine.lockdown.lock(component)
        await engine.stop(JOB, None)
        await until(lambda: len(engine.outbox.kill) == 2, "both are to be killed")
        nothing_left(running, world, "KillTasks")
        assert len(world.alive) == 2
        await engine.lockdown.unlock(component)
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.KILLED


async def test_a_lockdown_of_launch_stops_no_kill(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2))
        await until(lambda: count(running.engine, TaskState.RUNNING) == 2, "both run")
        await running.engine.lockdown.lock(Component.LAUNCH)
        await running.engine.stop(JOB, None)
        await ended(running.engine)


async def test_nothing_is_preempted_while_kill_is_locked(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await until(lambda: count(engine, TaskState.RUNNING) == 1, "it runs")
        await engine.lockdown.lock(Component.KILL)
        world.preempted.append(f"{JOB}-0-1")
        await until(lambda: len(engine.outbox.kill), "the call that was under way brings the run")
        nothing_left(running, world, "KillTasks")
        assert len(world.called("GetPreemptibleTasks")) == 1, "there is no further call"
        await engine.lockdown.unlock(Component.KILL)
        await until(lambda: world.called("KillTasks"), "it is killed")


async def test_launches_that_are_held_do_not_delay_stepping_down(store: Store) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world, finish_within=60.0) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(3))
        await until(lambda: len(world.queued) == 3, "the tasks are enqueued")
        await engine.lockdown.lock(Component.LAUNCH)
        world.hold = False  # the placements come in the answer to a call that was under way
        await until(lambda: not world.queued, "the placements are handed out")
        async with asyncio.timeout(60):
            await running.finish()
        nothing_left(running, world, "LaunchTasks")


async def test_a_queue_is_held_until_all_of_its_components_are_unlocked(store: Store) -> None:
    lockdown = Lockdown(store)
    queue: Queue[int] = Queue(lockdown.gate(Component.KILL, Component.GOAL_STATE_ENGINE))
    await lockdown.lock(Component.KILL)
    await lockdown.lock(Component.GOAL_STATE_ENGINE)
    taking = asyncio.create_task(queue.take(5))
    queue.put([1, 2])
    await lockdown.unlock(Component.KILL)
    assert queue.held
    assert not taking.done()
    await lockdown.unlock(Component.GOAL_STATE_ENGINE)
    assert await taking == [1, 2]


async def test_a_queue_that_is_locked_while_it_is_empty_holds_what_comes_then(store: Store) -> None:
    lockdown = Lockdown(store)
    queue: Queue[int] = Queue(lockdown.gate(Component.LAUNCH))
    taking = asyncio.create_task(queue.take(5))
    await asyncio.sleep(0)
    await lockdown.lock(Component.LAUNCH)
    queue.put([1])
    await store.lockdowns.all()
    assert not taking.done()
    await lockdown.unlock(Component.LAUNCH)
    assert await taking == [1]

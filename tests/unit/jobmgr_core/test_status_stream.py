"""Statuses and streams."""

from __future__ import annotations

from jobmgr.engine.engine import Engine
from mesos.v1 import mesos_pb2
from peloton.model.states import TaskState
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import ended, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until


async def test_a_run_that_was_given_up_and_is_alive_is_killed(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await ended(running.engine)
        world.alive[f"{JOB}-0-1"] = "host"
        for _ in range(5):
            world.status(f"{JOB}-0-1", mesos_pb2.TASK_RUNNING)
        await until(lambda: not world.alive, "it is killed")
        await until(lambda: world.purged == len(world.events), "all events are passed")
    killed = [task.value for request in world.called("KillTasks") for task in request.taskIds]
    assert 1 <= len(killed) <= 3


async def test_another_event_stream_is_read_from_its_start(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2))
        await reach(running.engine, TaskState.RUNNING, 2)
        world.events, world.purged, world.stream = [], 0, "stream-2"
        for run in list(world.alive):
            world.status(run, mesos_pb2.TASK_FINISHED)
        await ended(running.engine)


async def test_a_new_resmgr_gets_pending_runs_again(store: Store) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(5, minimumRunningInstances=3))
        await reach(running.engine, TaskState.PENDING, 5)
        await until(lambda: world.called("WaitForDeltas"), "reasons are requested")
        world.queued.clear()
        world.resmgr_stream, world.resmgr_leader = "resmgr-2", "leader-2"
        await until(lambda: len(world.queued) == 5, "all are enqueued again")
        world.hold = False
        await ended(running.engine)
    assert len(world.launched) == 5

"""Jobs from creation to their end, over a small world and a real store."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

import pytest

from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from jobmgr.services.private.problems import refused_jobs
from mesos.v1 import mesos_pb2
from peloton.errors import AlreadyExists, Conflict, NotFound, Refused, Unavailable
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.wire.job import job_spec
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, config, spec
from tests.unit.jobmgr_core.steps import FAST, archived, count, ended, failing, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on, runs_well
from tests.waiting import until


async def test_a_job_runs_from_creation_to_its_end(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(10))
        await ended(running.engine)
        job = await running.engine.load(JOB)
        await until(lambda: world.purged == len(world.events), "all events are passed")
    assert job.runtime.state is JobState.SUCCEEDED
    assert job.runtime.task_counts == {TaskState.SUCCEEDED: 10}
    assert job.runtime.config_counts == {1: 10}
    assert sorted(world.launched) == sorted(f"{JOB}-{i}-1" for i in range(10))
    stored = await store.jobs.runtime(JOB)
    assert stored.state is JobState.SUCCEEDED
    assert stored.completion_time >= stored.start_time > 0
    assert [event.state for event in reversed(await store.pod_events.list(JOB, 3))] == [
        TaskState.INITIALIZED,
        TaskState.PENDING,
        TaskState.LAUNCHED,
        TaskState.STARTING,
        TaskState.RUNNING,
        TaskState.SUCCEEDED,
    ]


async def test_a_finished_job_leaves_the_active_set(store: Store) -> None:
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, spec(2))
        await ended(running.engine)
        await archived(store)


async def test_the_same_job_is_created_once(store: Store) -> None:
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, spec(1))
        with pytest.raises(AlreadyExists):
            await running.engine.create_job(JOB, spec(1))


async def test_rows_are_created_in_batches(store: Store) -> None:
    engine = Engine(store, limits=Limits(rows_per_cycle=7))
    async with Running(engine, World()):
        await engine.create_job(JOB, spec(30))
        await ended(engine)
    assert (await engine.load(JOB)).counts == {TaskState.SUCCEEDED: 30}


async def test_failed_runs_are_followed_by_others_up_to_the_limit(store: Store) -> None:
    world = failing(times=2)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(3, max_failures=3))
        await ended(running.engine)
        job = await running.engine.load(JOB)
    assert job.runtime.state is JobState.SUCCEEDED
    assert sorted(world.launched) == sorted(f"{JOB}-{i}-{run}" for i in range(3) for run in (1, 2, 3))
    assert [task.failure_count for task in job.tasks] == [2, 2, 2]
    assert [task.previous_run for task in job.tasks] == [2, 2, 2]
    assert not world.twice


@pytest.mark.parametrize(("max_failures", "runs"), [(0, 1), (1, 1), (4, 4)])
async def test_a_task_that_always_fails(store: Store, max_failures: int, runs: int) -> None:
    world = failing(times=100)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1, max_failures=max_failures))
        await ended(running.engine)
        task = (await running.engine.load(JOB)).tasks[0]
        assert (await running.engine.load(JOB)).runtime.state is JobState.FAILED
    assert len(world.launched) == runs
    assert task.termination is not None
    assert (task.termination.reason, task.termination.exit_code) == (TerminationReason.FAILED, 3)


async def test_no_more_than_the_maximum_run_at_once(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(5, maximumRunningInstances=2))
        for done in (0, 2, 4):
            await reach(running.engine, TaskState.RUNNING, min(2, 5 - done))
            assert count(running.engine, TaskState.INITIALIZED) == max(3 - done, 0)
            for run in list(world.alive):
                world.status(run, mesos_pb2.TASK_FINISHED)
            await until(lambda: not world.alive, "they ended")
            await until(lambda: world.purged == len(world.events), "all events are passed")
        await ended(running.engine)
    assert len(world.launched) == 5


async def test_a_gang_is_enqueued_as_one(store: Store) -> None:
    world = World()
    engine = Engine(store, limits=Limits(rows_per_cycle=2))
    async with Running(engine, world) as running:
        await running.engine.create_job(JOB, spec(7, minimumRunningInstances=5))
        await ended(running.engine)
    gangs = [gang for request in world.called("EnqueueGangs") for gang in request.gangs]
    assert sorted(len(gang.tasks) for gang in gangs) == [1, 1, 5]


async def test_stopping_a_job_ends_all_its_tasks(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(6, maximumRunningInstances=4))
        await reach(engine, TaskState.RUNNING, 4)
        assert await engine.stop(JOB, None) == list(range(6))
        await ended(engine)
        job = await engine.load(JOB)
        assert await engine.stop(JOB, None) == []
    assert job.runtime.state is JobState.KILLED
    assert job.counts == {TaskState.KILLED: 6}
    reasons = {task.termination.reason for task in job.tasks if task.termination}
    assert reasons == {TerminationReason.KILLED_ON_REQUEST}
    assert not world.alive
    assert len(world.launched) == 4


async def test_stopping_a_waiting_task_withdraws_it(store: Store) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(3))
        await reach(running.engine, TaskState.PENDING, 3)
        assert await running.engine.stop(JOB, [1, 7]) == [1]
        await reach(running.engine, TaskState.KILLED, 1)
        assert sorted(world.queued) == [f"{JOB}-0", f"{JOB}-2"]
        world.hold = False
        await ended(running.engine)
        assert (await running.engine.load(JOB)).runtime.state is JobState.KILLED
    assert f"{JOB}-1-1" not in world.launched


async def test_a_kill_is_repeated_until_there_is_a_status(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await reach(running.engine, TaskState.RUNNING, 1)
        world.failures["KillTasks"] = deque([Refused("no kills today"), Refused("no kills today")])
        await running.engine.stop(JOB, [0])
        await ended(running.engine)
    assert len(world.called("KillTasks")) == 3


async def test_a_stopped_task_starts_again_as_the_next_run(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2))
        await reach(engine, TaskState.RUNNING, 2)
        await engine.stop(JOB, [0])
        await reach(engine, TaskState.KILLED, 1)
        assert await engine.start(JOB, None) == [0]
        await reach(engine, TaskState.RUNNING, 2)
        assert sorted(world.alive) == [f"{JOB}-0-2", f"{JOB}-1-1"]
    assert not world.twice


async def test_a_restart_kills_and_begins_the_next_run(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2))
        await reach(engine, TaskState.RUNNING, 2)
        assert await engine.restart(JOB, [1]) == [1]
        await until(lambda: f"{JOB}-1-2" in world.alive, "the next run lives")
        await reach(engine, TaskState.RUNNING, 2)
        killed = [e for e in await store.pod_events.list(JOB, 1, run=1) if e.state is TaskState.KILLED]
    assert len(killed) == 1
    assert not world.twice


async def test_an_ended_job_refuses_start_and_update(store: Store) -> None:
    async with Running(Engine(store), World()) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await ended(engine)
        with pytest.raises(Refused):
            await engine.start(JOB, [0])
        with pytest.raises(Refused):
            await engine.update_job(JOB, spec(2, version=2))
        with pytest.raises(NotFound):
            await engine.start("0f3f5c2a-0000-4000-8000-00000000dead", [0])


async def test_an_update_adds_instances(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2))
        await reach(engine, TaskState.RUNNING, 2)
        with pytest.raises(Conflict):
            await engine.update_job(JOB, spec(4, version=3))
        await engine.update_job(JOB, spec(4, version=2))
        await reach(engine, TaskState.RUNNING, 4)
        job = engine.job(JOB)
        assert job is not None
        assert job.runtime.config_counts == {1: 2, 2: 2}
        assert (await engine.summary(JOB)).spec.instance_count == 4
    assert len(world.launched) == 4


async def test_a_job_is_deleted_when_it_has_ended(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await reach(engine, TaskState.RUNNING, 1)
        with pytest.raises(Refused, match="Job is not in a terminal state: RUNNING"):
            await engine.delete(JOB)
        world.status(f"{JOB}-0-1", mesos_pb2.TASK_FINISHED)
        await ended(engine)
        await engine.delete(JOB)
        with pytest.raises(NotFound, match="job not found"):
            await engine.delete(JOB)
        with pytest.raises(NotFound):
            await engine.load(JOB)


async def test_the_end_of_a_job_follows_its_controller(store: Store) -> None:
    world = World(lambda run: runs_well(run) if "-0-" in run[36:] else failing(9).behaviour(run))
    wire = config(2)
    wire.instanceConfig[0].CopyFrom(wire.defaultConfig)
    wire.instanceConfig[0].controller = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, job_spec(wire, 1))
        await ended(running.engine)
        job = await running.engine.load(JOB)
    assert job.counts == {TaskState.SUCCEEDED: 1, TaskState.FAILED: 1}
    assert job.runtime.state is JobState.SUCCEEDED


async def test_a_task_beyond_its_time_limit_is_killed(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, spec(1, maxRunningTime=1))
        await ended(running.engine)
        task = (await running.engine.load(JOB)).tasks[0]
    assert task.state is TaskState.KILLED
    assert task.termination is not None
    assert task.termination.reason is TerminationReason.DEADLINE_TIMEOUT_EXCEEDED


async def test_pending_reasons_are_shown_and_not_stored(store: Store) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await reach(engine, TaskState.PENDING, 1)
        world.deltas = [waiting_pb2.TaskDelta(mesos_task_id=f"{JOB}-0-1", state=2, reason="no cpu left")]  # type: ignore[arg-type]
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: job.reason(0) == "no cpu left", "the reason is known")
        assert (await store.tasks.get(JOB, 0)).reason == ""
        world.hold = False
        await ended(engine)
    assert not job.pending_reasons


async def test_a_run_refused_by_resmgr_has_a_reason_and_is_retried(store: Store) -> None:
    world = World()
    world.refuse = lambda task: "the pool is closed"
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: job.reason(0) == "the pool is closed", "the reason is known")
        [problem] = await refused_jobs(engine.lanes)
        assert problem.text.endswith("as its pool is now: 1 task may not be queued: the pool is closed")
        world.refuse = lambda task: ""
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.SUCCEEDED
        assert await refused_jobs(engine.lanes) == []


async def test_nothing_is_done_before_it_is_stored(store: Store) -> None:
    """While the store cannot be written nothing is launched; afterwards all goes on."""
    world = World()
    engine = Engine(store)
    broken = [True]
    write_all = store.write_all

    async def failing_write(*args: object, **named: object) -> None:
        if broken[0]:
            raise Unavailable("disk full")
        await write_all(*args, **named)  # type: ignore[arg-type]

    store.write_all = failing_write  # type: ignore[method-assign]
    async with Running(engine, world):
        await engine.create_job(JOB, spec(2))
        job = engine.job(JOB)
        assert job is not None
        assert job.counts == {}
        assert not world.called("EnqueueGangs")
        broken[0] = False
        await ended(engine)
    assert len(world.launched) == 2


async def test_refresh_reads_the_store_again(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await reach(engine, TaskState.RUNNING, 1)
        task = await store.tasks.get(JOB, 0)
        await store.write_all(JOB, {0: replace(task, message="mended by hand")})
        await engine.refresh(JOB)
        job = engine.job(JOB)
        assert job is not None
        assert job.tasks[0].message == "mended by hand"
        world.status(f"{JOB}-0-1", mesos_pb2.TASK_FINISHED)
        await ended(engine)


async def test_a_refresh_keeps_pending_operations(store: Store) -> None:
    """A launch whose call is not answered yet is neither reconciled nor repeated."""
    world = World()
    gate = asyncio.Event()
    launch = world.LaunchTasks

    async def slow(request: object) -> object:
        await gate.wait()
        return await launch(request)

    world.LaunchTasks = slow  # type: ignore[method-assign]
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(3))
        await until(lambda: world.called("LaunchTasks"), "the launch is called for")
        await engine.refresh(JOB)
        await engine.refresh_tasks(JOB, 0, 2)
        gate.set()
        await ended(engine)
    assert len(world.launched) == 3
    assert not world.called("ReconcileTasks")


async def test_a_job_whose_creation_has_an_unknown_outcome_is_adopted(store: Store) -> None:
    world = World()
    create = store.jobs.create

    async def unanswered(*args: object) -> None:
        await create(*args)  # type: ignore[arg-type]
        raise Unavailable("who knows")

    async with Running(Engine(store), world) as running:
        engine = running.engine
        store.jobs.create = unanswered  # type: ignore[method-assign, assignment]
        with pytest.raises(Unavailable):
            await engine.create_job(JOB, spec(2))
        store.jobs.create = create  # type: ignore[method-assign]
        with pytest.raises(AlreadyExists):
            await engine.create_job(JOB, spec(2))
        await until(lambda: len(world.launched) == 2, "it runs")
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.SUCCEEDED

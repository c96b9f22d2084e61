"""Instances of batch jobs that are released, and used again, through the engine and its store."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from jobmgr.core.state.events import ReleaseRequested
from jobmgr.core.state.free_numbers import FreeNumbers
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from jobmgr.engine.recovery import recover
from jobmgr.services.common.view import view
from mesos.v1 import mesos_pb2
from peloton.errors import InvalidArgument, Refused, Unavailable
from peloton.model.job import JobQuery, JobRuntime, instance_count
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime
from storage.interface import Store
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import JOB, spec, stored_job
from tests.unit.jobmgr_core.steps import FAST, archived, begin_term, ended, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

FEW = Limits(kill_again_after=0.05, kill_again_most=0.2, confirm_after=0.05, ask_after=0.05, rows_per_cycle=2)


def numbers(engine: Engine) -> list[int]:
    job = engine.job(JOB)
    return [] if job is None else [instance for instance, _ in job.created()]


async def free(engine: Engine, *wanted: int) -> None:
    job = engine.job(JOB)
    assert job is not None
    await until(lambda: list(job.free) == list(wanted), f"{wanted} are free")


async def test_running_instances_end_and_their_numbers_begin_again_with_the_next_run(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(5))
        for run in range(1, 5):
            await reach(engine, TaskState.RUNNING, 5)
            assert await engine.release(JOB, [4, 1, 2]) == [1, 2, 4]
            await free(engine, 1, 2, 4)
            assert await engine.reuse(JOB, 4, 10) == [1, 2]
            assert await engine.reuse(JOB, 5, 10) == [4]
            assert f"{JOB}-2-{run}" in world.launched
        await reach(engine, TaskState.RUNNING, 5)
        assert sorted(world.alive) == sorted(
            [f"{JOB}-{i}-5" for i in (1, 2, 4)] + [f"{JOB}-{i}-1" for i in (0, 3)]
        )
        assert not world.twice
    events = await store.pod_events.list(JOB, 2)
    assert {event.run for event in events} == {1, 2, 3, 4, 5}
    ends = [event for event in events if event.state is TaskState.KILLED]
    assert {event.termination and event.termination.reason for event in ends} == {
        TerminationReason.KILLED_ON_REQUEST
    }


async def test_many_are_released_and_added_by_several_cycles(store: Store) -> None:
    async with Running(Engine(store, limits=FEW), World(runs_on)) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(8))
        await reach(engine, TaskState.RUNNING, 8)
        with pytest.raises(InvalidArgument, match="stop the job instead"):
            await engine.release(JOB, range(8))
        assert numbers(engine) == list(range(8))
        assert await engine.release(JOB, range(1, 8)) == [1, 2, 3, 4, 5, 6, 7]
        await free(engine, *range(1, 8))
        assert await engine.reuse(JOB, 6, 5) == [1, 2, 3, 4, 5]
        assert numbers(engine) == [0, 1, 2, 3, 4, 5]


async def test_a_new_leader_goes_on_with_a_release_and_knows_the_free_numbers(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(5))
        await reach(running.engine, TaskState.RUNNING, 5)
        await running.engine.release(JOB, [1])
        await free(running.engine, 1)
        world.failures["KillTasks"] = deque([Unavailable("not now")] * 1000)
        await running.engine.release(JOB, [3])
    world.failures.clear()
    engine = Engine(store, limits=FAST)
    await begin_term(store)
    await recover(store, engine.lanes)
    async with Running(engine, world):
        await free(engine, 1, 3)
        job = engine.job(JOB)
        assert job is not None and job.runtime.released == 2
        assert instance_count(job.spec, job.runtime) == 3
        assert await engine.reuse(JOB, 4, 1) == [1]
        await until(lambda: f"{JOB}-1-2" in world.alive, "the next run is launched")
    assert not world.twice


def test_the_usage_of_released_instances_is_their_jobs_also_for_the_next_leader() -> None:
    used = {"cpu": 7.0}
    ended = TaskRuntime(TaskState.SUCCEEDED, TaskState.SUCCEEDED, 1, 1, 1, 1, resource_usage=used)
    gone = replace(ended, state=TaskState.DELETED, goal=TaskState.DELETED, run=3)
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, 1)
    held = stored_job(runtime, {0: ended, 1: gone}, spec(2))
    held.add_up()
    assert held.runtime.resource_usage == {"cpu": 14.0}
    assert (held.runtime.released, list(held.free)) == (1, [1])
    assert held.runtime.config_counts == {1: 1} and held.counts == {TaskState.SUCCEEDED: 1}


async def test_a_job_ends_by_the_instances_that_it_has(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(4))
        await reach(engine, TaskState.RUNNING, 4)
        world.status(f"{JOB}-1-1", mesos_pb2.TASK_FAILED)
        await reach(engine, TaskState.FAILED, 1)
        await engine.release(JOB, [1, 2])
        await free(engine, 1, 2)
        for run in list(world.alive):
            world.status(run, mesos_pb2.TASK_FINISHED)
        await ended(engine)
        await archived(store)
        runtime = await store.jobs.runtime(JOB)
        assert (runtime.state.name, runtime.released) == ("SUCCEEDED", 2)
        assert dict(runtime.task_counts) == {TaskState.SUCCEEDED: 2}
        with pytest.raises(Refused, match="has ended"):
            await engine.release(JOB, [0])
    # As calls read it when it is in memory no longer.
    page = await store.jobs.query(JobQuery())
    assert [job.instance_count for job in page.jobs] == [2]
    fresh = Engine(store)
    seen = await view(fresh, JOB)
    assert seen.cached is None and seen.instance_count == 2
    assert [instance async for instance, _ in seen.tasks()] == [0, 3]
    assert [row[0] async for batch in seen.batches() for row in batch] == [0, 3]
    assert await seen.task(1) is None and await seen.removed_run(1) == 1
    assert await seen.removed_run(0) == 0


async def test_other_types_release_nothing(store: Store) -> None:
    async with Running(Engine(store), World(runs_on)) as running:
        await running.engine.create_job(JOB, service(3))
        with pytest.raises(InvalidArgument, match="SERVICE"):
            await running.engine.lanes.request(ReleaseRequested(JOB, [1]))


def test_free_numbers_are_in_order() -> None:
    free = FreeNumbers()
    assert not len(free) and list(free) == []
    with pytest.raises(ValueError, match="3 is not free"):
        free.take([3])
    free.add([5, 1])
    free.add([3])
    assert list(free) == [1, 3, 5]
    free.take({1, 5})
    assert list(free) == [3] and len(free) == 1
    with pytest.raises(ValueError):
        free.take([1])

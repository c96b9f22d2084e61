"""Batch jobs that are suspended, when they are created or while they run, and resumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.job.suspension import refusal
from jobmgr.core.state import events as ev
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from jobmgr.services.common.crash_loops import explained
from mesos.v1 import mesos_pb2
from peloton.errors import Refused
from peloton.model.job import JobSpec
from peloton.model.schedule import Schedule
from peloton.model.states import JobState, JobType, TaskState
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import count, ended, next_leader, reach
from tests.unit.jobmgr_core.test_interrupted_leaders import Leader, row, runtime, statuses
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState


def state(engine: Engine) -> JobState | None:
    job = engine.job(JOB)
    return None if job is None else job.runtime.state


async def test_a_job_that_is_created_as_suspended_begins_when_it_is_resumed(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2), suspended=True)
        job = engine.job(JOB)
        assert job is not None
        assert explained(job, Limits()).waits.startswith("suspended since 20")
        assert (job.runtime.state, job.counts, world.launched) == (JobState.INITIALIZED, {}, [])
        await engine.suspend(JOB, suspend=True)
        await engine.suspend(JOB, suspend=False)
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.SUCCEEDED
    assert sorted(world.launched) == [f"{JOB}-0-1", f"{JOB}-1-1"]


async def test_a_running_job_stops_and_goes_on_with_what_had_not_succeeded(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(3))
        await reach(engine, S.RUNNING, 3)
        world.status(f"{JOB}-0-1", mesos_pb2.TASK_FINISHED, "")
        await reach(engine, S.SUCCEEDED, 1)
        await engine.suspend(JOB, suspend=True)
        await reach(engine, S.KILLED, 2)
        assert state(engine) is JobState.INITIALIZED
        assert len(world.launched) == 3
        await engine.suspend(JOB, suspend=False)
        await reach(engine, S.RUNNING, 2)
        world.behaviour = lambda run: []
        for instance in (1, 2):
            world.status(f"{JOB}-{instance}-2", mesos_pb2.TASK_FINISHED, "")
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.SUCCEEDED
    assert sorted(world.launched[3:]) == [f"{JOB}-1-2", f"{JOB}-2-2"]


async def test_another_leader_keeps_a_job_suspended(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2))
        await reach(running.engine, S.RUNNING, 2)
        await running.engine.suspend(JOB, suspend=True)
        await reach(running.engine, S.KILLED, 2)
    async with Running(await next_leader(store), world) as running:
        engine = running.engine
        await until(lambda: engine.job(JOB) is not None, "the job is read")
        await reach(engine, S.KILLED, 2)
        assert state(engine) is JobState.INITIALIZED
        assert len(world.launched) == 2
        await engine.suspend(JOB, suspend=False)
        await reach(engine, S.RUNNING, 2)


async def test_a_suspended_job_can_be_stopped(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2), suspended=True)
        await engine.stop(JOB, None)
        await ended(engine)
        assert (await engine.load(JOB)).runtime.state is JobState.KILLED
        with pytest.raises(Refused, match="cannot resume a job that has ended: it is KILLED"):
            await engine.suspend(JOB, suspend=False)


async def test_no_instance_of_it_is_started_by_itself(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(2))
        await reach(engine, S.RUNNING, 2)
        await engine.suspend(JOB, suspend=True)
        await reach(engine, S.KILLED, 2)
        for ask in (engine.start, engine.restart):
            with pytest.raises(Refused, match="is suspended: resume the job"):
                await ask(JOB, [0])
        assert count(engine, S.KILLED) == 2


def ask(leader: Leader, suspend: bool) -> object:
    return leader.run_cycle(ev.SuspensionAsked(JOB, suspend, "ann")).replies[0]


def test_a_run_that_fails_as_it_is_stopped_runs_again_and_one_that_succeeds_does_not() -> None:
    rows = {0: row(S.RUNNING), 1: row(S.RUNNING), 2: row(S.FAILED)}
    leader = Leader(spec(3), replace(runtime(), task_counts={S.RUNNING: 2, S.FAILED: 1}), rows)
    assert ask(leader, True) is None
    assert [leader.task(i).state for i in range(3)] == [S.KILLING, S.KILLING, S.FAILED]
    leader.run_cycle(statuses(S.FAILED, 0), statuses(S.SUCCEEDED, 1))
    assert leader.core.active.jobs[JOB].job.runtime.state is JobState.INITIALIZED
    assert ask(leader, False) is None
    leader.run_cycle()
    assert [leader.task(i).run for i in range(3)] == [2, 1, 1]
    assert leader.task(1).state is S.SUCCEEDED
    assert leader.task(2).state is S.FAILED


def test_a_suspended_job_whose_last_run_succeeds_ends() -> None:
    leader = Leader(spec(1), replace(runtime(), task_counts={S.RUNNING: 1}), {0: row(S.RUNNING)})
    ask(leader, True)
    cycle = leader.run_cycle(statuses(S.SUCCEEDED, 0))
    (change,) = cycle.changes.values()
    assert change.runtime is not None
    assert change.runtime.state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (replace(spec(1), type=JobType.SERVICE), "a SERVICE job cannot be suspended: stop and start it"),
        (replace(spec(1), schedule=Schedule("@daily", "UTC")), "pause its schedule"),
        (spec(1), ""),
    ],
)
def test_which_jobs_cannot_be_suspended(made: JobSpec, text: str) -> None:
    assert text in refusal(made)
    assert bool(refusal(made)) == bool(text)

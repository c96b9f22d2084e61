"""Jobs that wait for the ends of others: over a small world, a real store and several leaders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from jobmgr.services.common.crash_loops import explained
from peloton.model.dependency import Dependency, DependencyEnd, Verdict, told_waits, verdict
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import ended, failing, next_leader
from tests.unit.jobmgr_core.test_interrupted_leaders import WALL, Leader
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

NEXT, LAST = (f"0f3f5c2a-0000-4000-8000-00000000000{number}" for number in (2, 3))
SUCCEEDED, ENDED = DependencyEnd.SUCCEEDED, DependencyEnd.ENDED


def waiting(*on: str, end: DependencyEnd = SUCCEEDED, instances: int = 2) -> JobSpec:
    return replace(spec(instances), depends_on=tuple(Dependency(each, f"job-{each[-1]}", end) for each in on))


@pytest.mark.parametrize(
    ("end", "state", "means"),
    [
        *((end, state, Verdict.WAIT) for end in DependencyEnd for state in JobState if not state.terminal),
        (SUCCEEDED, JobState.SUCCEEDED, Verdict.MET),
        (SUCCEEDED, JobState.FAILED, Verdict.NEVER),
        (SUCCEEDED, JobState.KILLED, Verdict.NEVER),
        (SUCCEEDED, None, Verdict.NEVER),
        (ENDED, JobState.SUCCEEDED, Verdict.MET),
        (ENDED, JobState.FAILED, Verdict.MET),
        (ENDED, JobState.KILLED, Verdict.MET),
        (ENDED, None, Verdict.MET),
    ],
)
def test_what_the_state_of_the_other_job_means(
    end: DependencyEnd, state: JobState | None, means: Verdict
) -> None:
    assert verdict(end, state) is means


async def test_a_job_begins_when_the_other_has_succeeded(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await engine.create_job(NEXT, waiting(JOB))
        await until(lambda: len(world.launched) == 1, "the first job runs")
        job = engine.job(NEXT)
        assert job is not None
        assert (job.runtime.state, job.counts) == (JobState.INITIALIZED, {})
        assert explained(job, Limits()).waits == f"waits until job job-1 ({JOB}) has succeeded"
        world.status(f"{JOB}-0-1", 2, "")
        await until(lambda: len(world.launched) == 3, "the second job begins")
    assert [run for run in world.launched if run.startswith(JOB)] == [f"{JOB}-0-1"]


async def test_a_job_is_stopped_when_the_other_fails_and_says_so(store: Store) -> None:
    async with Running(Engine(store), failing(9)) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await engine.create_job(NEXT, waiting(JOB))
        await engine.create_job(LAST, waiting(JOB, end=ENDED, instances=1))
        for job in (JOB, NEXT, LAST):
            await ended(engine, job)
        stopped = await engine.load(NEXT)
        last = await engine.load(LAST)
    assert stopped.runtime.state is JobState.KILLED
    text = f"stopped by its dependency on job job-1 ({JOB}), which is FAILED"
    assert {task.message for task in stopped.tasks} == {f"{text}; stopped before it was enqueued"}
    assert {task.run for task in stopped.tasks} == {1}
    assert last.runtime.state is JobState.FAILED, "it ran, whatever the other's end"


async def test_chains_and_ends_that_came_before(store: Store) -> None:
    async with Running(Engine(store), World()) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await ended(engine)
        await engine.create_job(NEXT, waiting(JOB))
        await engine.create_job(LAST, waiting(JOB, NEXT))
        await ended(engine, LAST)
        assert (await engine.load(LAST)).runtime.state is JobState.SUCCEEDED


async def test_another_leader_goes_on_waiting_and_goes_by_an_end_that_nobody_saw(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await running.engine.create_job(LAST, waiting(JOB))
        await running.engine.create_job(NEXT, waiting(JOB, LAST))
        await until(lambda: len(world.launched) == 1, "the first job runs")
    async with Running(await next_leader(store), world) as running:
        await until(lambda: running.engine.job(NEXT) is not None, "the jobs are read")
        job = running.engine.job(NEXT)
        assert job is not None
        assert (job.runtime.unmet, job.counts) == ((JOB, LAST), {})
        world.status(f"{JOB}-0-1", 2, "")
        await ended(running.engine)
        await until(lambda: [run for run in world.launched if run.startswith(LAST)], "the next begins")
    world.behaviour = lambda run: []
    async with Running(await next_leader(store), world) as running:
        await until(lambda: running.engine.job(NEXT) is not None, "the jobs are read")
        for instance in range(2):
            world.status(f"{LAST}-{instance}-1", 2, "")
        await until(lambda: [run for run in world.launched if run.startswith(NEXT)], "the last begins")
    assert len(world.launched) == len(set(world.launched)), "nothing is launched twice"


async def test_the_deletion_of_the_other_job(store: Store) -> None:
    async with Running(Engine(store), World(runs_on)) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await ended_and_deleted(engine)
        await engine.create_job(NEXT, waiting(JOB))
        await ended(engine, NEXT)
        by = (await engine.load(NEXT)).runtime.goal_by
        assert by.endswith("which was deleted before it was seen to succeed")


async def ended_and_deleted(engine: Engine) -> None:
    await engine.stop(JOB, None)
    await ended(engine)
    await engine.delete(JOB)


async def test_a_job_that_waits_can_be_stopped(store: Store) -> None:
    async with Running(Engine(store), World(runs_on)) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(1))
        await engine.create_job(NEXT, waiting(JOB))
        await engine.stop(NEXT, None)
        await ended(engine, NEXT)
        assert (await engine.load(NEXT)).counts == {TaskState.KILLED: 2}


def test_a_job_that_waits_keeps_no_cycle_busy() -> None:
    runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, WALL, unmet=(NEXT,))
    leader = Leader(waiting(NEXT), runtime, {})
    cycle = leader.run_cycle()
    assert not cycle.more
    assert leader.core.idle_until() is None
    leader.run_cycle(ev.DependencySeen(JOB, NEXT, JobState.SUCCEEDED))
    assert isinstance(leader.task(0), TaskRuntime)
    assert leader.task(1).state is TaskState.INITIALIZED


def test_many_dependencies_are_told_in_short() -> None:
    on = tuple(Dependency(f"id-{number}", f"job-{number}", ENDED) for number in range(8))
    text = told_waits(on, tuple(each.job_id for each in on[1:]))
    assert text.startswith("waits until job job-1 (id-1) has ended and job job-2")
    assert text.endswith("and 2 more")

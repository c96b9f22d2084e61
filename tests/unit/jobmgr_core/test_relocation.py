"""Batch jobs whose next runs are to go by another config, through the core and through the engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.decisions import Relocated
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from peloton.errors import NotFound, Refused
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.workload import JobWorkload
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import FAST, ended, failing, reach
from tests.unit.jobmgr_core.test_interrupted_leaders import Leader, row
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState
FEW = Limits(kill_again_after=0.05, kill_again_most=0.2, confirm_after=0.05, ask_after=0.05, rows_per_cycle=2)


def leader(made: JobSpec, *states: TaskState) -> Leader:
    """A leader of a job whose config of version 2 no instance has."""
    rows = {i: replace(row(state), host="h" if state is S.RUNNING else "") for i, state in enumerate(states)}
    led = Leader(
        replace(made, version=2), JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 2, 1), rows, older=(made,)
    )
    for _ in range(2):
        led.run_cycle()
    return led


def relocate(led: Leader) -> object:
    return led.run_cycle(ev.RelocationRequested(JOB, "somebody")).replies[-1]


def test_what_waits_begins_anew_and_what_runs_goes_on() -> None:
    led = leader(spec(4), S.RUNNING, S.PENDING, S.INITIALIZED, S.SUCCEEDED)
    assert relocate(led) == Relocated(4, 2)
    running, waiting, _, done = (led.task(i) for i in range(4))
    assert (running.state, running.desired_run, running.config_version) == (S.RUNNING, 1, 1)
    assert waiting.desired_run == 2
    assert (done.state, done.desired_run) == (S.SUCCEEDED, 1)
    assert {led.task(i).desired_config_version for i in range(4)} == {2}
    assert waiting.termination is not None
    assert waiting.termination.reason is TerminationReason.KILLED_FOR_UPDATE
    assert relocate(led) == Relocated(0, 0)


def test_a_waiting_member_waits_on_while_its_gang_is_on_hosts() -> None:
    elastic = replace(spec(4, minimumRunningInstances=2), workload=JobWorkload(growth_interval=300))
    led = leader(elastic, S.RUNNING, S.RUNNING, S.INITIALIZED, S.INITIALIZED)
    assert relocate(led) == Relocated(4, 0)
    assert [led.task(i).desired_run for i in range(4)] == [1] * 4
    waiting = leader(elastic, S.PENDING, S.PENDING, S.INITIALIZED, S.INITIALIZED)
    assert relocate(waiting) == Relocated(4, 4)


def test_a_gang_is_taken_whole_whatever_a_cycle_has_room_for() -> None:
    made = spec(4, minimumRunningInstances=3)
    rows = {i: row(S.PENDING) for i in range(4)}
    runtime = JobRuntime(JobState.PENDING, JobState.SUCCEEDED, 2, 1)
    led = Leader(replace(made, version=2), runtime, rows, older=(made,), rows_per_cycle=1)
    assert relocate(led) == Relocated(3, 3)
    assert relocate(led) == Relocated(1, 1)


def test_instances_that_leave_or_are_stopped_stay_so() -> None:
    led = leader(spec(3), S.RUNNING, S.PENDING, S.KILLED)
    led.run_cycle(ev.StopRequested(JOB, [1]))
    led.run_cycle(ev.ReleaseRequested(JOB, [0]))
    assert relocate(led) == Relocated(2, 0)
    assert led.task(1).goal is S.KILLED
    assert led.task(0).desired_config_version == 1


async def test_waiting_runs_are_enqueued_by_the_new_config_by_several_cycles(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FEW), world) as running:
        engine = running.engine
        await engine.create_job(JOB, spec(3))
        await reach(engine, S.RUNNING, 3)
        world.hold = True
        await engine.update_job(JOB, spec(8, version=2))
        await reach(engine, S.PENDING, 5)
        await engine.update_job(JOB, spec(8, version=3))
        assert await engine.relocate(JOB) == (8, 5)
        world.hold = False
        await reach(engine, S.RUNNING, 8)
        job = engine.job(JOB)
        assert job is not None
        assert [task.config_version for _, task in job.created()] == [1] * 3 + [3] * 5
        assert [task.run for _, task in job.created()] == [1] * 3 + [2] * 5
        assert sorted(job.specs) == [1, 3]
        assert await engine.relocate(JOB) == (0, 0)
    assert not world.twice


async def test_a_retry_goes_by_the_new_config(store: Store) -> None:
    world = failing(times=1)
    async with Running(Engine(store, limits=FAST), world) as running:
        world.hold = True
        await running.engine.create_job(JOB, spec(1, max_failures=3))
        await reach(running.engine, S.PENDING, 1)
        await running.engine.update_job(JOB, spec(1, version=2, max_failures=3))
        await running.engine.relocate(JOB)
        await until(lambda: f"{JOB}-0" in world.queued, "the next run waits")
        world.hold = False
        await ended(running.engine)
        job = await running.engine.load(JOB)
    assert [(task.config_version, task.state) for task in job.tasks] == [(2, S.SUCCEEDED)]


async def test_jobs_that_have_ended_or_are_being_stopped_are_refused(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store, limits=FAST), world) as running:
        engine = running.engine
        with pytest.raises(NotFound):
            await engine.relocate(JOB)
        await engine.create_job(JOB, spec(1))
        await reach(engine, S.RUNNING, 1)
        await engine.stop(JOB, None)
        with pytest.raises(Refused, match=r"is being stopped|has ended"):
            await engine.relocate(JOB)
        await ended(engine)
        with pytest.raises(Refused, match="cannot move a job that has ended"):
            await engine.relocate(JOB)

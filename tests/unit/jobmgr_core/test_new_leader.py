"""What a new leader finds, in every state."""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from jobmgr.core.state.events import Now
from jobmgr.engine.engine import Engine
from jobmgr.engine.recovery import recover
from mesos.v1 import mesos_pb2
from peloton.errors import Fenced, NotFound, Refused, Unavailable
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.stored import recreate
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import FAST, begin_term, ended, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on, runs_well
from tests.waiting import until

MEASURED = ("jobs", "jobs_read", "tasks_read")


def task() -> TaskRuntime:
    return TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 1, 1, 1, 1)


async def succeed(store: Store, world: World, job: str = JOB) -> Engine:
    """The next leader, which takes over and brings the job to its end."""
    engine = Engine(store, limits=FAST)
    await begin_term(store)
    await recover(store, engine.lanes)
    async with Running(engine, world):
        await ended(engine, job)
    return engine


async def test_a_new_leader_finishes_the_creation(store: Store) -> None:
    first = Engine(store)
    await first.create_job(JOB, spec(9))
    change = first.lanes.lane(JOB).core.run_cycle([], Now(1_700_000_000_000_000_000, 0.0)).changes[JOB]
    await store.write_all(JOB, {i: change.tasks[i] for i in (0, 1, 2, 6)}, (), change.runtime)
    world = World()
    engine = await succeed(store, world)
    assert (await engine.load(JOB)).counts == {TaskState.SUCCEEDED: 9}
    assert len(world.launched) == 9


async def test_a_new_leader_takes_over_in_every_state(store: Store) -> None:
    world = World(lambda run: runs_on(run) if int(run.split("-")[-2]) % 2 else [])
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(8, max_failures=5, maximumRunningInstances=6))
        await reach(running.engine, TaskState.RUNNING, 3)
        await reach(running.engine, TaskState.LAUNCHED, 3)
    lost = f"{JOB}-0-1"
    del world.alive[lost]
    world.behaviour = runs_well
    engine = Engine(store, limits=FAST)
    await begin_term(store)
    await recover(store, engine.lanes)
    async with Running(engine, world):
        await until(lambda: f"{JOB}-0-2" in world.launched, "the lost one runs again")
        for run in list(world.alive):
            world.status(run, mesos_pb2.TASK_FINISHED)
        await ended(engine)
    assert (await engine.load(JOB)).counts == {TaskState.SUCCEEDED: 8}
    assert len(world.launched) == 9
    assert not world.twice


async def test_a_run_that_was_stored_and_not_launched_is_retried_without_a_failure(store: Store) -> None:
    """Without retries: the runs are stored as LAUNCHED, and Mesos does not know them."""
    world = World()
    world.failures["LaunchTasks"] = deque([Unavailable("not yet")] * 1000)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(5, max_failures=0))
        await reach(running.engine, TaskState.LAUNCHED, 5)
    world.failures.clear()
    engine = await succeed(store, world)
    job = await engine.load(JOB)
    assert job.runtime.state is JobState.SUCCEEDED
    assert [(task.run, task.failure_count) for task in job.tasks] == [(2, 0)] * 5
    lost = (await store.pod_events.list(JOB, 0, run=1))[0]
    assert (lost.state, lost.reason) == (TaskState.LOST, "RECONCILIATION")
    assert lost.message == (
        "never started, not counted as a failure: Reconciliation: Task is unknown to the agent"
    )


async def test_a_new_leader_enqueues_pending_runs_again(store: Store) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(4, minimumRunningInstances=2))
        await reach(running.engine, TaskState.PENDING, 4)
    world.queued.clear()
    world.hold = False
    await succeed(store, world)
    assert len(world.launched) == 4


async def test_a_new_leader_continues_kills(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(3))
        await reach(running.engine, TaskState.RUNNING, 3)
        world.failures["KillTasks"] = deque([Refused("not today")])
        await running.engine.stop(JOB, None)
        await reach(running.engine, TaskState.KILLING, 3)
    engine = await succeed(store, world)
    assert (await engine.load(JOB)).runtime.state is JobState.KILLED
    assert not world.alive


async def test_a_new_leader_retires_finished_jobs(store: Store) -> None:
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, spec(1))
        await ended(running.engine)
    await recreate(store, JOB)
    engine = await succeed(store, World())
    assert engine.active_jobs() == []


async def test_the_progress_of_recovery_is_reported(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    jobs = [f"0f3f5c2a-0000-4000-8000-{number:012}" for number in range(40)]
    for job in jobs:
        await Engine(store).create_job(job, spec(3))
        await store.write_all(job, {0: task(), 1: task()})
    engine = Engine(store, limits=FAST)
    with caplog.at_level(logging.INFO, "jobmgr.engine.recovery"):
        assert await recover(store, engine.lanes, log_interval=0.0) == 40
    assert sorted(engine.active_jobs()) == jobs
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("16 of 40 active jobs are read, ") for line in lines)
    assert lines[-1].startswith("40 of 40 active jobs are read, 80 tasks, in ")
    reported = {name: REGISTRY.get_sample_value(f"jobmgr_recovery_{name}") for name in MEASURED}
    assert reported == {"jobs": 40, "jobs_read": 40, "tasks_read": 80}
    assert REGISTRY.get_sample_value("jobmgr_active_jobs") == 40


async def test_a_job_whose_config_is_missing_is_not_retired(store: Store) -> None:
    """Its tasks run. Only a job of which nothing is stored was being deleted."""
    await Engine(store).create_job(JOB, spec(1))
    runtime = await store.jobs.runtime(JOB)
    await store.jobs.delete(JOB)
    await store.jobs.create(JOB, spec(1, version=7), runtime)
    with pytest.raises(NotFound, match="no config version 1"):
        await recover(store, Engine(store).lanes)
    assert await store.jobs.active() == (JOB,)


async def test_a_leader_whose_term_is_over_does_nothing_more(store: Store, tmp_path: Path) -> None:
    world = World(runs_on)
    await store.begin_term("jobmgr", 1)
    successor = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2))
        await reach(running.engine, TaskState.RUNNING, 2)
        await successor.begin_term("jobmgr", 2)
        with pytest.raises(Unavailable):
            await running.engine.stop(JOB, None)
        with pytest.raises(Unavailable):
            await running.engine.stop(JOB, None)
        with pytest.raises(Fenced):
            await running.engine.create_job("0f3f5c2a-0000-4000-8000-000000000002", spec(1))
        assert running.engine.lanes.problem
    await successor.close()
    assert not world.called("KillTasks")
    assert len(world.alive) == 2


OF_ANOTHER = "0f3f5c2a-0000-4000-8000-000000000002"


@pytest.mark.parametrize("drains", [False, True])
@pytest.mark.parametrize("run", [f"{OF_ANOTHER}-0-1", f"{JOB}-5-1", f"{JOB}-0-2"])
async def test_an_overtaken_leader_neither_kills_nor_acknowledges_what_it_does_not_know(
    store: Store, tmp_path: Path, run: str, drains: bool
) -> None:
    """Its successor has created the job, or the instance, or has begun the next run. It writes none of it."""
    world = World(runs_on)
    await store.begin_term("jobmgr", 1)
    successor = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await reach(running.engine, TaskState.RUNNING, 1)
        await until(lambda: world.purged == len(world.events), "all statuses are stored")
        known = world.purged
        await successor.begin_term("jobmgr", 2)
        world.alive[run] = "host-of-another"
        if drains:
            world.draining.add("host-of-another")
        else:
            world.status(run, mesos_pb2.TASK_RUNNING)
            world.status(run, mesos_pb2.TASK_FINISHED)
        await until(lambda: running.engine.lanes.problem, "it learns that it no longer leads")
    await successor.close()
    assert not world.called("KillTasks")
    assert world.purged == known


async def test_a_leader_kills_what_nobody_knows(store: Store) -> None:
    world = World(runs_on)
    await begin_term(store)
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await reach(running.engine, TaskState.RUNNING, 1)
        run = f"{OF_ANOTHER}-0-1"
        world.alive[run] = "host-1"
        world.status(run, mesos_pb2.TASK_RUNNING)
        await until(lambda: run not in world.alive, "the orphan is killed")
        await until(lambda: world.purged == len(world.events), "its end is acknowledged")


async def test_the_term_is_not_checked_while_all_is_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []

    async def note(job_id: str) -> None:
        checks.append(job_id)

    monkeypatch.setattr(store, "check_term", note)
    await begin_term(store)
    world = World()
    async with Running(Engine(store, limits=FAST), world) as running:
        await running.engine.create_job(JOB, spec(20))
        await ended(running.engine)
    assert len(world.launched) == 20 and not checks


async def test_a_term_that_cannot_be_checked_is_checked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, failures = store.check_term, deque([Unavailable("not now")] * 2)

    async def fail(job_id: str) -> None:
        if failures:
            assert not world.called("KillTasks")
            raise failures.popleft()
        await check(job_id)

    monkeypatch.setattr(store, "check_term", fail)
    await begin_term(store)
    world = World()
    async with Running(Engine(store, limits=FAST), world):
        run = f"{OF_ANOTHER}-0-1"
        world.alive[run] = "host-1"
        world.status(run, mesos_pb2.TASK_RUNNING)
        await until(lambda: run not in world.alive, "the orphan is killed")
    assert not failures

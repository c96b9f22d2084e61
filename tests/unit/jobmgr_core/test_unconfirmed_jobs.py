"""Creations with an unknown outcome, cancelled callers, and interrupted updates."""

from __future__ import annotations

import asyncio

import pytest

from jobmgr.engine.engine import Engine
from jobmgr.engine.recovery import recover
from peloton.errors import AlreadyExists, NotFound, Unavailable
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from storage.interface import Jobs, Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import archived, ended, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until


class UnknownOutcome:
    """The jobs of a store that creates one when it is let, and may then not say so."""

    def __init__(self, jobs: Jobs, answered: bool) -> None:
        self._jobs = jobs
        self._answered = answered
        self.begun = False
        self.let = asyncio.Event()

    async def create(self, *args: object) -> None:
        self.begun = True
        await self.let.wait()
        await self._jobs.create(*args)  # type: ignore[arg-type]
        if not self._answered:
            raise Unavailable("who knows")

    def __getattr__(self, name: str) -> object:
        return getattr(self._jobs, name)


async def created_without_an_answer(engine: Engine) -> None:
    jobs = engine.store.jobs
    jobs_api = UnknownOutcome(jobs, answered=False)
    jobs_api.let.set()
    engine.store.jobs = jobs_api  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        await engine.create_job(JOB, spec(2))
    engine.store.jobs = jobs


async def test_a_job_whose_creation_has_an_unknown_outcome_runs(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await created_without_an_answer(running.engine)
        await until(lambda: len(world.launched) == 2, "it runs")
        await ended(running.engine)
        with pytest.raises(AlreadyExists):
            await running.engine.create_job(JOB, spec(2))


async def test_a_stop_of_a_job_whose_creation_has_an_unknown_outcome_is_kept(store: Store) -> None:
    world = World()
    world.hold = True
    engine = Engine(store)
    async with Running(engine, world):
        await created_without_an_answer(engine)
        assert await engine.stop(JOB, None) == [0, 1]
        await ended(engine)
        await archived(store)
    later = Engine(store)
    assert await recover(store, later.lanes) == 0
    assert (await later.load(JOB)).runtime.state is JobState.KILLED


async def test_the_search_for_a_job_that_was_not_stored_ends(store: Store) -> None:
    engine = Engine(store)
    async with Running(engine, World()):
        engine.unconfirmed.put([JOB])
        await until(lambda: not len(engine.unconfirmed), "it is looked for")
        with pytest.raises(NotFound):
            await engine.stop(JOB, None)
        assert not engine.active_jobs()


async def test_a_cancelled_caller_does_not_cancel_the_creation(store: Store) -> None:
    """As where a client's time is over while the store is slow."""
    world = World()
    engine, slow = Engine(store), UnknownOutcome(store.jobs, answered=True)
    store.jobs = slow  # type: ignore[assignment]
    async with Running(engine, world):
        creating = asyncio.create_task(engine.create_job(JOB, spec(2)))
        await until(lambda: slow.begun, "the store is called")
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
        slow.let.set()
        await until(lambda: len(world.launched) == 2, "it runs")
        await ended(engine)


async def test_versions_of_interrupted_updates_are_skipped(store: Store) -> None:
    """Each left a config that never became the job's."""
    world = World(runs_on)
    engine = Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, spec(1))
        await reach(engine, TaskState.RUNNING, 1)
        for version in range(2, 20):
            await store.jobs.add_config(JOB, spec(2, version=version))
        await engine.update_job(JOB, spec(2, version=2))
        await reach(engine, TaskState.RUNNING, 2)
        assert (await engine.summary(JOB)).runtime.config_version == 20


async def test_a_repeated_deletion_finishes_an_interrupted_one(store: Store) -> None:
    """The job itself went first. Its tasks would be those of a job that is created with its id later on."""
    await store.write_all(JOB, {0: TaskRuntime(TaskState.SUCCEEDED, TaskState.SUCCEEDED, 1, 1, 1, 1)})
    engine = Engine(store)
    with pytest.raises(NotFound, match="job not found"):
        await engine.delete(JOB)
    assert [page async for page in store.tasks.list(JOB)] == []


async def test_a_deletion_spares_a_job_that_is_being_created(store: Store) -> None:
    world = World()
    engine, slow = Engine(store), UnknownOutcome(store.jobs, answered=True)
    store.jobs = slow  # type: ignore[assignment]
    async with Running(engine, world):
        creating = asyncio.create_task(engine.create_job(JOB, spec(1)))
        await until(lambda: slow.begun, "the store is called")
        with pytest.raises(NotFound):
            await engine.delete(JOB)
        slow.let.set()
        await creating
        await ended(engine)
        assert (await engine.load(JOB)).counts == {TaskState.SUCCEEDED: 1}

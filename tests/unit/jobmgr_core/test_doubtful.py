"""Jobs of which nobody could tell whether they were stored, callers who went away, and updates cut off."""

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
from tests.unit.jobmgr_core.world import Running, World, runs_on, until


class Doubtful:
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
    doubtful = Doubtful(jobs, answered=False)
    doubtful.let.set()
    engine.store.jobs = doubtful  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        await engine.create_job(JOB, spec(2))
    engine.store.jobs = jobs


async def test_a_job_that_was_stored_without_an_answer_runs(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await created_without_an_answer(running.engine)
        await until(lambda: len(world.launched) == 2, "it runs")
        await ended(running.engine)
        with pytest.raises(AlreadyExists):
            await running.engine.create_job(JOB, spec(2))


async def test_a_stop_of_a_job_that_was_stored_without_an_answer_is_kept(store: Store) -> None:
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


async def test_what_the_store_never_got_is_not_looked_for_for_ever(store: Store) -> None:
    engine = Engine(store)
    async with Running(engine, World()):
        engine.unconfirmed.put([JOB])
        await until(lambda: not len(engine.unconfirmed), "it is looked for")
        with pytest.raises(NotFound):
            await engine.stop(JOB, None)
        assert not engine.active_jobs()


async def test_who_does_not_wait_for_a_creation_breaks_nothing_off(store: Store) -> None:
    """As where a client's time is over while the store is slow."""
    world = World()
    engine, slow = Engine(store), Doubtful(store.jobs, answered=True)
    store.jobs = slow  # type: ignore[assignment]
    async with Running(engine, world):
        creating = asyncio.create_task(engine.create_job(JOB, spec(2)))
        await until(lambda: slow.begun, "the store is asked")
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)
        slow.let.set()
        await until(lambda: len(world.launched) == 2, "it runs")
        await ended(engine)


async def test_updates_that_were_cut_off_often_are_passed_over(store: Store) -> None:
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


async def test_a_deletion_that_was_cut_off_is_finished_when_it_is_asked_for_again(store: Store) -> None:
    """The job itself went first. Its tasks would be those of a job that is created with its id later on."""
    await store.write_all(JOB, {0: TaskRuntime(TaskState.SUCCEEDED, TaskState.SUCCEEDED, 1, 1, 1, 1)})
    engine = Engine(store)
    with pytest.raises(NotFound, match="job not found"):
        await engine.delete(JOB)
    assert [page async for page in store.tasks.list(JOB)] == []


async def test_a_deletion_does_not_take_what_is_just_being_created(store: Store) -> None:
    world = World()
    engine, slow = Engine(store), Doubtful(store.jobs, answered=True)
    store.jobs = slow  # type: ignore[assignment]
    async with Running(engine, world):
        creating = asyncio.create_task(engine.create_job(JOB, spec(1)))
        await until(lambda: slow.begun, "the store is asked")
        with pytest.raises(NotFound):
            await engine.delete(JOB)
        slow.let.set()
        await creating
        await ended(engine)
        assert (await engine.load(JOB)).counts == {TaskState.SUCCEEDED: 1}

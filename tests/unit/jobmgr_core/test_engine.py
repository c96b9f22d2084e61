"""The engine with its drivers and a real store, over a small world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobmgr.engine import Engine
from peloton.model.states import JobState, TaskState
from storage.config import StorageSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.world import Running, World, until


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_sqlite(StorageSettings(path=tmp_path / "peloton.db"))
    yield opened
    await opened.close()


async def ended(engine: Engine, job: str = JOB) -> None:
    await until(lambda: engine.job(job) is None, f"job {job} has ended")


async def test_a_job_runs_from_creation_to_its_end(store: Store) -> None:
    world = World()
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(10))
        await ended(running.engine)
        job = await running.engine.load(JOB)
    assert job.runtime.state is JobState.SUCCEEDED
    assert job.runtime.task_counts == {TaskState.SUCCEEDED: 10}
    assert sorted(world.launched) == sorted(f"{JOB}-{i}-1" for i in range(10))
    stored = await store.jobs.runtime(JOB)
    assert stored.state is JobState.SUCCEEDED
    assert [event.state for event in reversed(await store.pod_events.list(JOB, 3))] == [
        TaskState.INITIALIZED,
        TaskState.PENDING,
        TaskState.LAUNCHED,
        TaskState.STARTING,
        TaskState.RUNNING,
        TaskState.SUCCEEDED,
    ]

"""What a follower has read of jobs counts in its term, and nothing that may have changed since does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobmgr.engine.engine import Engine
from jobmgr.engine.read_ahead import ReadAhead
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.states import JobState
from storage.config import SqliteSettings
from storage.sqlite.store import SqliteStore, open_sqlite
from tests.contract.storage.samples import job_id, job_runtime, spec, task_runtime

JOB = job_id(1)
RUNTIME = replace(job_runtime(), config_version=1, update_id="", state=JobState.RUNNING)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = await open_sqlite(SqliteSettings(path=tmp_path / "peloton.db"))
    yield found
    await found.close()


@pytest.fixture
def read(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[tuple[JobId, int]]:
    """Of which jobs which versions are read from the store."""
    asked: list[tuple[JobId, int]] = []
    unchanged = store.jobs.config

    async def config(job: JobId, version: int) -> JobSpec:
        asked.append((job, version))
        return await unchanged(job, version)

    monkeypatch.setattr(store.jobs, "config", config)
    return asked


async def recovered(store: SqliteStore, ahead: ReadAhead) -> JobSpec:
    engine = Engine(store, ahead=ahead)
    await engine.recovery.begin()
    await engine.recovery.read(JOB)
    job = engine.job(JOB)
    assert job is not None
    return job.spec


async def test_a_term_begins_with_what_was_read(store: SqliteStore, read: list[tuple[JobId, int]]) -> None:
    await store.jobs.create(JOB, spec(), RUNTIME)
    ahead = ReadAhead()
    assert await ahead.look(store) == 1
    assert read == [(JOB, 1)]
    assert await ahead.look(store) == 0, "each version is read once"
    assert await recovered(store, ahead) == spec()
    assert read == [(JOB, 1)]


async def test_a_newer_version_is_read_when_the_term_begins(
    store: SqliteStore, read: list[tuple[JobId, int]]
) -> None:
    await store.jobs.create(JOB, spec(), RUNTIME)
    ahead = ReadAhead()
    await ahead.look(store)
    await store.jobs.add_config(JOB, spec(2, name="next"))
    changed = replace(task_runtime(), config_version=1, desired_config_version=2)
    await store.write_all(JOB, {0: changed}, runtime=replace(RUNTIME, config_version=2))
    assert (await recovered(store, ahead)).name == "next"
    assert read == [(JOB, 1), (JOB, 2)]


async def test_another_job_under_the_same_id_is_read_anew(store: SqliteStore) -> None:
    """Its version 1 is not that of the job that was deleted."""
    await store.jobs.create(JOB, spec(), RUNTIME)
    ahead = ReadAhead()
    await ahead.look(store)
    await store.jobs.delete(JOB)
    again = replace(RUNTIME, creation_time=RUNTIME.creation_time + 1)
    await store.jobs.create(JOB, spec(name="another"), again)
    assert (await recovered(store, ahead)).name == "another"


async def test_jobs_that_ended_are_forgotten(store: SqliteStore, read: list[tuple[JobId, int]]) -> None:
    await store.jobs.create(JOB, spec(), RUNTIME)
    ahead = ReadAhead()
    await ahead.look(store)
    await store.jobs.retire(JOB)
    assert await ahead.look(store) == 0
    await ahead.config(store, JOB, RUNTIME, 1)
    assert read == [(JOB, 1), (JOB, 1)]

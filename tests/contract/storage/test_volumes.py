"""Persistent volumes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import Fenced, NotFound
from peloton.model.volume import Volume, VolumeState, volume_id
from storage.interface import Store
from tests.contract.storage.conftest import Opener
from tests.contract.storage.samples import job_id, job_runtime, spec, task_runtime

JOB, OTHER = job_id(1), job_id(2)


def volume(instance: int, run: int = 1, job: str = JOB) -> Volume:
    return Volume(
        volume_id(job, instance, run),
        job,
        instance,
        "a host",
        size_mb=64,
        container_path="da\u00e9ta",
        state=VolumeState.INITIALIZED,
        goal=VolumeState.CREATED,
        created_at=10**18 + run,
        updated_at=10**18,
    )


async def test_volumes_are_written_with_their_tasks(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    runtime = replace(task_runtime(), volume_id=volume(0).id)
    await store.write_all(JOB, {0: runtime}, volumes=[volume(0), volume(1)])
    assert await store.volumes.get(volume(0).id) == volume(0)
    assert (await store.tasks.get(JOB, 0)).volume_id == volume(0).id
    created = replace(volume(0), state=VolumeState.CREATED, updated_at=10**18 + 5)
    await store.write_all(JOB, {}, volumes=[created])
    assert await store.volumes.get(volume(0).id) == created


async def test_the_volumes_of_a_job_are_listed_by_instance_and_age(store: Store) -> None:
    wanted = [volume(2), volume(2, 12), volume(10), volume(10, 3)]
    for each in (*reversed(wanted), volume(1, job=OTHER)):
        await store.volumes.write(each)
    assert list(await store.volumes.of_job(JOB)) == wanted
    assert await store.volumes.of_job(job_id(3)) == ()
    assert list(await store.volumes.all()) == [*wanted, volume(1, job=OTHER)]


async def test_a_volume_that_is_not_stored_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match=volume(0).id):
        await store.volumes.get(volume(0).id)
    assert await store.volumes.all() == ()


async def test_volumes_outlive_their_job(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.volumes.write(volume(0))
    await store.jobs.delete(JOB)
    assert list(await store.volumes.of_job(JOB)) == [volume(0)]


async def test_a_former_leader_writes_no_volumes(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmgr", 1)
    await new.begin_term("jobmgr", 2)
    with pytest.raises(Fenced):
        await old.volumes.write(volume(0))
    with pytest.raises(Fenced):
        await old.write_all(JOB, {}, volumes=[volume(0)])
    assert await new.volumes.all() == ()

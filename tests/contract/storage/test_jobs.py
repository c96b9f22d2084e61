from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from peloton.errors import AlreadyExists, NotFound
from peloton.model.job import JobQuery
from peloton.model.states import JobState
from storage.interface import Store
from tests.contract.storage.samples import HOUR, POOL_ID, event, job_id, job_runtime, spec, task_runtime

JOB = job_id(1)
OTHER_POOL = "5a3c1ed0-0000-4000-8000-000000000002"


async def test_a_created_job_reads_back_whole(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    assert await store.jobs.config(JOB, 1) == spec()
    assert await store.jobs.runtime(JOB) == job_runtime()
    assert list(await store.jobs.active()) == [JOB]


async def test_a_job_is_created_once(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    with pytest.raises(AlreadyExists, match=JOB):
        await store.jobs.create(JOB, spec(name="other"), job_runtime(JobState.FAILED))
    assert await store.jobs.config(JOB, 1) == spec()
    assert await store.jobs.runtime(JOB) == job_runtime()


async def test_of_jobs_created_at_once_one_wins(store: Store) -> None:
    specs = [spec(name=f"name {i}") for i in range(8)]
    results = await asyncio.gather(
        *(store.jobs.create(JOB, one, job_runtime()) for one in specs), return_exceptions=True
    )
    won = [one for one, result in zip(specs, results, strict=True) if result is None]
    assert len(won) == 1
    assert sum(isinstance(result, AlreadyExists) for result in results) == 7
    assert await store.jobs.config(JOB, 1) == won[0]


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.jobs.config(JOB, 1)
    with pytest.raises(NotFound):
        await store.jobs.runtime(JOB)
    with pytest.raises(NotFound):
        await store.write_all(JOB, {}, (), job_runtime())
    await store.jobs.retire(JOB)
    await store.jobs.delete(JOB)
    assert list(await store.jobs.active()) == []


async def test_configs_are_kept_by_version(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.add_config(JOB, spec(2, command="echo second version"))
    with pytest.raises(AlreadyExists):
        await store.jobs.add_config(JOB, spec(2))
    assert await store.jobs.config(JOB, 1) == spec()
    assert await store.jobs.config(JOB, 2) == spec(2, command="echo second version")
    with pytest.raises(NotFound):
        await store.jobs.config(JOB, 3)


async def test_a_runtime_is_replaced(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    newer = replace(job_runtime(), state=JobState.KILLING, revision=6)
    await store.write_all(JOB, {}, (), newer)
    assert await store.jobs.runtime(JOB) == newer
    await store.write_all(JOB, {}, (), job_runtime())
    assert await store.jobs.runtime(JOB) == job_runtime()


async def test_the_index_follows_the_runtime_and_its_config(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.add_config(JOB, spec(2, "renamed", labels=(("team", "ads"),), command="echo other"))
    assert (await store.jobs.query(JobQuery(name="renamed"))).total == 0

    ended = replace(
        job_runtime(JobState.SUCCEEDED, completed=2 * HOUR), config_version=2, task_counts={}, revision=6
    )
    await store.write_all(JOB, {}, (), ended)
    page = await store.jobs.query(
        JobQuery(
            name="renamed",
            labels=(("team", "ads"),),
            keywords=("OTHER",),
            states=frozenset({JobState.SUCCEEDED}),
        )
    )
    assert [job.runtime for job in page.jobs] == [ended]
    assert page.jobs[0].spec.version == 2
    assert (await store.jobs.query(JobQuery(labels=(("team", "maps"),)))).total == 0
    assert (await store.jobs.query(JobQuery(states=frozenset({JobState.RUNNING})))).total == 0
    for ids, total in ((frozenset({JOB, "other"}), 1), (frozenset({"other"}), 0), (frozenset[str](), 0)):
        assert (await store.jobs.query(JobQuery(ids=ids))).total == total


async def test_a_runtime_of_a_config_that_is_not_there_is_refused(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    with pytest.raises(NotFound):
        await store.write_all(JOB, {}, (), replace(job_runtime(), config_version=2))
    assert await store.jobs.runtime(JOB) == job_runtime()


async def test_the_active_set(store: Store) -> None:
    jobs = [job_id(i) for i in range(3)]
    for job in jobs:
        await store.jobs.create(job, spec(), job_runtime())
    await store.jobs.retire(jobs[1])
    await store.jobs.retire(jobs[1])
    assert set(await store.jobs.active()) == {jobs[0], jobs[2]}
    await store.write_all(jobs[1], {}, (), job_runtime(JobState.FAILED))
    assert set(await store.jobs.active()) == {jobs[0], jobs[2]}


async def test_a_deleted_job_leaves_nothing(store: Store) -> None:
    other = job_id(2)
    for job in (JOB, other):
        await store.jobs.create(job, spec(), job_runtime())
        await store.write_all(job, {0: task_runtime()})
        await store.write_all(job, {}, [event(job)])
    await store.jobs.delete(JOB)

    with pytest.raises(NotFound):
        await store.jobs.runtime(JOB)
    with pytest.raises(NotFound):
        await store.jobs.config(JOB, 1)
    assert [page async for page in store.tasks.list(JOB)] == []
    assert list(await store.pod_events.list(JOB, 0)) == []
    assert list(await store.jobs.active()) == [other]
    assert [job.job_id for job in (await store.jobs.query(JobQuery())).jobs] == [other]
    assert await store.tasks.get(other, 0) == task_runtime()
    assert len(await store.pod_events.list(other, 0)) == 1

    await store.jobs.create(JOB, spec(name="again"), job_runtime())
    assert (await store.jobs.config(JOB, 1)).name == "again"


async def test_lost_work_is_summed_by_pool_until_the_job_is_deleted(store: Store) -> None:
    """Of jobs of any state; one has lost nothing, and a name that looks like a loss is none."""
    assert await store.jobs.lost_seconds() == {}
    for number, (pool_id, lost) in enumerate(
        [(POOL_ID, 2.5), (POOL_ID, 4.0), (OTHER_POOL, 1.0), (POOL_ID, 0.0)]
    ):
        usage = {"cpu": 1.0} | ({"lost": lost} if lost else {})
        made = job_runtime(JobState.FAILED if number else JobState.RUNNING)
        runtime = replace(made, resource_usage=usage, goal_by='"lost":')
        await store.jobs.create(job_id(number), spec(pool_id=pool_id), runtime)
    assert await store.jobs.lost_seconds() == {POOL_ID: 6.5, OTHER_POOL: 1.0}
    more = replace(job_runtime(), resource_usage={"lost": 10.0}, revision=6)
    await store.write_all(job_id(0), {}, (), more)
    assert await store.jobs.lost_seconds() == {POOL_ID: 14.0, OTHER_POOL: 1.0}
    await store.jobs.retire(job_id(1))
    await store.jobs.delete(job_id(0))
    assert await store.jobs.lost_seconds() == {POOL_ID: 4.0, OTHER_POOL: 1.0}

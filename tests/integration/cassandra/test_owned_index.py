"""The job index of shards follows the writes of their owner, whoever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from peloton.model.job import JobQuery
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import JobState
from storage.cassandra.store import CassandraStore
from tests.contract.storage.samples import job_id, job_runtime, spec
from tests.integration.cassandra.conftest import Opener
from tests.integration.cassandra.test_writes import lose_answers

ROLE = "jobmgr"
ALL = JobQuery(limit=100)
LOWER, UPPER = range(SHARDS // 2), range(SHARDS // 2, SHARDS)


async def found(store: CassandraStore, shards: Collection[int]) -> dict[str, JobState]:
    """The jobs that a handle finds in its shards, as soon as these are read."""
    keys = await store.jobs.find_keys(ALL)
    for _ in range(1000):
        if keys is not None and keys.shards == set(shards):
            break
        await asyncio.sleep(0.02)
        keys = await store.jobs.find_keys(ALL)
    assert keys is not None and keys.shards == set(shards), keys
    jobs = await store.jobs.summaries([key.job_id for key in keys.keys])
    assert len(jobs) == keys.total
    return {job.job_id: job.runtime.state for job in jobs}


def of(shards: Collection[int], count: int = 20) -> list[str]:
    return [each for number in range(count) if shard_of(each := job_id(number)) in shards]


async def created(store: CassandraStore, jobs: Collection[str]) -> None:
    await asyncio.gather(*(store.jobs.create(each, spec(), job_runtime()) for each in jobs))


async def test_each_owner_finds_its_jobs(open_handle: Opener) -> None:
    one, other = await open_handle(), await open_handle()
    await one.begin_shards(ROLE, dict.fromkeys(LOWER, 1))
    await other.begin_shards(ROLE, dict.fromkeys(UPPER, 2))
    await asyncio.gather(created(one, of(LOWER)), created(other, of(UPPER)))
    assert (await found(one, LOWER)).keys() == set(of(LOWER))
    assert (await found(other, UPPER)).keys() == set(of(UPPER))
    first, *rest = of(LOWER)
    await one.write_all(first, {}, (), job_runtime(JobState.KILLED))
    await one.jobs.delete(rest[0])
    expected = {first: JobState.KILLED, **dict.fromkeys(rest[1:], job_runtime().state)}
    assert await found(one, LOWER) == expected


async def test_each_owner_adds_up_what_its_jobs_have_lost(open_handle: Opener) -> None:
    one, other = await open_handle(), await open_handle()
    await one.begin_shards(ROLE, dict.fromkeys(LOWER, 1))
    await other.begin_shards(ROLE, dict.fromkeys(UPPER, 2))
    lost = replace(job_runtime(), revision=6, resource_usage={"lost": 2.0})
    for owner, shards in ((one, LOWER), (other, UPPER)):
        await created(owner, of(shards))
        await asyncio.gather(*(owner.write_all(job, {}, (), lost) for job in of(shards)))
        await found(owner, shards)
        losses = await owner.jobs.find_losses()
        assert losses is not None
        assert losses.shards == set(shards)
        assert losses.seconds == {spec().pool_id: 2.0 * len(of(shards))}
    await other.begin_shards(ROLE, {next(iter(LOWER)): 3})
    rest = await one.jobs.find_losses()
    assert rest is not None and rest.shards == set(LOWER) - {LOWER[0]}


async def test_a_leader_needs_no_index_of_shards(open_handle: Opener) -> None:
    leader = await open_handle()
    await leader.begin_term(ROLE, 1)
    await leader.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 1))
    assert await leader.jobs.find_keys(ALL) is None
    assert await leader.jobs.find_losses() is None


async def test_jobs_follow_their_shards(open_handle: Opener) -> None:
    """Back and forth, with changes at each owner: none finds what it had known of a shard before."""
    one, other = await open_handle(), await open_handle()
    await one.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 1))
    await created(one, of(range(SHARDS)))
    assert len(await found(one, range(SHARDS))) == 20
    one.end_shards(UPPER)
    await other.begin_shards(ROLE, dict.fromkeys(UPPER, 2))
    assert (await found(one, LOWER)).keys() == set(of(LOWER))
    changed, gone, *_ = of(UPPER)
    await other.write_all(changed, {}, (), job_runtime(JobState.FAILED))
    await other.jobs.delete(gone)
    assert (await found(other, UPPER))[changed] is JobState.FAILED
    other.end_shards(UPPER)
    await one.begin_shards(ROLE, dict.fromkeys(UPPER, 3))
    back = await found(one, range(SHARDS))
    assert back[changed] is JobState.FAILED and gone not in back and len(back) == 19
    assert not await found(other, ())


async def test_changes_while_the_jobs_are_read_are_in_it(open_handle: Opener) -> None:
    before, owner = await open_handle(), await open_handle()
    await before.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 1))
    jobs = of(range(SHARDS))
    await created(before, jobs)
    await owner.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 2))
    killed = [owner.write_all(each, {}, (), job_runtime(JobState.KILLED)) for each in jobs[:10]]
    gone = [owner.jobs.delete(each) for each in jobs[10:]]
    await asyncio.gather(*killed, *gone)
    assert await found(owner, range(SHARDS)) == dict.fromkeys(jobs[:10], JobState.KILLED)


async def test_a_shard_whose_term_is_over_does_not_count(open_handle: Opener) -> None:
    """Its owner has not heard of it yet, and may not know what the next one has written."""
    old, new = await open_handle(), await open_handle()
    await old.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 1))
    await created(old, of(range(SHARDS)))
    assert len(await found(old, range(SHARDS))) == 20
    await new.begin_shards(ROLE, dict.fromkeys(UPPER, 2))
    assert (await found(old, LOWER)).keys() == set(of(LOWER))


async def test_a_change_of_unknown_outcome_is_looked_up(open_handle: Opener) -> None:
    owner = await open_handle()
    await owner.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 1))
    [job, *_] = of(range(SHARDS))
    await created(owner, [job])
    await found(owner, range(SHARDS))
    newer = replace(job_runtime(JobState.KILLED), revision=6)
    lose_answers(owner, made=True)
    await owner.write_all(job, {}, (), newer)
    owner._owned_index.mark_unconfirmed(job)
    assert await found(owner, range(SHARDS)) == {job: JobState.KILLED}

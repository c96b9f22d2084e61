"""Terms of shards: each fences the jobs of its shard, and no others."""

from __future__ import annotations

import pytest

from peloton.errors import Fenced
from peloton.model.job import JobQuery
from peloton.model.shard import SHARDS, shard_of
from tests.contract.storage.conftest import Opener
from tests.contract.storage.samples import event, job_id, job_runtime, pool, spec, task_runtime

JOB, OTHER = job_id(1), job_id(2)
MINE, ANOTHERS = shard_of(JOB), shard_of(OTHER)
ROLE = "jobmgr"


def test_the_samples_are_of_two_shards() -> None:
    assert MINE != ANOTHERS


async def test_a_shard_that_has_a_newer_term_is_fenced_alone(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_shards(ROLE, dict.fromkeys(range(SHARDS), 3))
    await old.write_all(JOB, {0: task_runtime(1)})
    await old.write_all(OTHER, {0: task_runtime(1)})
    await new.begin_shards(ROLE, {MINE: 4})
    with pytest.raises(Fenced, match=f"shard {MINE}"):
        await old.check_term(JOB)
    await old.check_term(OTHER)
    await new.check_term(JOB)
    with pytest.raises(Fenced, match=f"shard {ANOTHERS}"):
        await new.check_term(OTHER)
    with pytest.raises(Fenced, match=f"shard {MINE}"):
        await old.write_all(JOB, {0: task_runtime(2)})
    with pytest.raises(Fenced):
        await old.jobs.create(JOB, spec(), job_runtime())
    await old.write_all(OTHER, {0: task_runtime(2)})
    assert await new.tasks.get(JOB, 0) == task_runtime(1)
    assert await new.tasks.get(OTHER, 0) == task_runtime(2)
    await new.write_all(JOB, {0: task_runtime(5)})
    assert await old.tasks.get(JOB, 0) == task_runtime(5), "reading is not fenced"


async def test_a_job_of_a_shard_that_is_not_owned_is_not_written(open_handle: Opener) -> None:
    one = await open_handle()
    await one.begin_shards(ROLE, {MINE: 1})
    with pytest.raises(Fenced, match=f"shard {ANOTHERS}"):
        await one.write_all(OTHER, {0: task_runtime(1)})
    with pytest.raises(Fenced):
        await one.jobs.delete(OTHER)
    with pytest.raises(Fenced):
        await one.pod_events.delete(OTHER, 0, 1)
    await one.begin_shards(ROLE, {ANOTHERS: 2})
    await one.write_all(OTHER, {0: task_runtime(1)})
    await one.write_all(JOB, {0: task_runtime(1)})


async def test_terms_of_shards_begin_all_or_none(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await new.begin_shards(ROLE, {MINE: 5})
    with pytest.raises(Fenced, match=f"shard {MINE}: term 4 is over, term 5 has begun"):
        await old.begin_shards(ROLE, {ANOTHERS: 4, MINE: 4})
    await new.begin_shards(ROLE, {ANOTHERS: 3})
    await new.write_all(OTHER, {0: task_runtime(1)})
    await new.begin_shards(ROLE, {MINE: 5})


async def test_a_shard_that_has_ended_is_written_by_its_next_owner(open_handle: Opener) -> None:
    """Back and forth: each of its writes wins over those before, whatever the clocks are."""
    one, other = await open_handle(), await open_handle()
    await other.begin_shards(ROLE, {ANOTHERS: 1})
    for term in range(1, 7):
        owner, last = (one, other) if term % 2 else (other, one)
        last.end_shards([MINE])
        await owner.begin_shards(ROLE, {MINE: term})
        await owner.write_all(JOB, {0: task_runtime(term)}, [event(JOB, 0, term)])
        with pytest.raises(Fenced):
            await last.write_all(JOB, {0: task_runtime(99)})
        assert await last.tasks.get(JOB, 0) == task_runtime(term)


async def test_the_leaders_term_counts_for_what_is_no_jobs(open_handle: Opener) -> None:
    """And the row of a job keeps the newest term that has changed it, whosever that was.

    The deleted job is in no other test: its timestamps are ahead of the clock, as those of terms in quick
    succession are, and would hide what is written next.
    """
    leader, owner, next_leader = await open_handle(), await open_handle(), await open_handle()
    mine = job_id(7001)
    assert shard_of(mine) != ANOTHERS
    await leader.begin_term(ROLE, 7)
    await leader.jobs.create(mine, spec(), job_runtime())
    await owner.begin_shards(ROLE, {shard_of(mine): 8})
    await owner.write_all(mine, {0: task_runtime(1)}, (), job_runtime())
    await leader.begin_shards(ROLE, {ANOTHERS: 8})
    await next_leader.begin_term(ROLE, 9)
    await leader.write_all(OTHER, {0: task_runtime(1)})
    with pytest.raises(Fenced):
        await leader.pools.write(pool())
    await owner.jobs.delete(mine)


async def test_who_has_some_shards_finds_the_jobs_of_all(open_handle: Opener) -> None:
    """Each writes its own, and none is told what the others write."""
    one, other = await open_handle(), await open_handle()
    await one.begin_shards(ROLE, {MINE: 21})
    await other.begin_shards(ROLE, {ANOTHERS: 21})
    query = JobQuery(exact_name="of some shards")
    for handle in (one, other):
        assert not (await handle.jobs.query(query)).jobs
    await one.jobs.create(JOB, spec(name="of some shards"), job_runtime())
    await other.jobs.create(OTHER, spec(name="of some shards"), job_runtime())
    for handle in (one, other):
        assert {job.job_id for job in (await handle.jobs.query(query)).jobs} == {JOB, OTHER}

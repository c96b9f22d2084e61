"""The job index of a leader, which follows its own writes, finds what a look at all jobs finds."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.model.job import JobQuery
from peloton.model.states import JobState
from storage.cassandra.connection import Connection
from storage.cassandra.store import CassandraStore
from storage.config import CassandraSettings
from tests.contract.storage.samples import job_id, job_runtime, spec
from tests.contract.storage.test_model import Operation, operations
from tests.integration.cassandra.conftest import Opener
from tests.integration.cassandra.test_writes import lose_answers
from tests.servers.store import empty

JOB = job_id(1)
ALL = JobQuery(limit=100)


@settings(max_examples=15, deadline=None)
@given(rounds=st.lists(st.lists(operations, max_size=6), max_size=4))
def test_it_follows(
    connection: Connection, store_settings: CassandraSettings, rounds: list[list[Operation]]
) -> None:
    empty(connection, store_settings)

    async def compare() -> None:
        leader = CassandraStore(connection, store_settings, shared=True)
        other = CassandraStore(connection, store_settings, shared=True)
        await leader.begin_term("jobmanager", 1)
        for some in rounds:
            await asyncio.gather(*(operation(leader) for operation, _ in some), return_exceptions=True)
            assert await leader.jobs.query(ALL) == await other.jobs.query(ALL)
        await leader.close()
        await other.close()

    asyncio.run(compare())


async def test_changes_while_the_jobs_are_read_are_in_it(store: CassandraStore) -> None:
    await store.begin_term("jobmanager", 1)
    for number in range(20):
        await store.jobs.create(job_id(number), spec(), job_runtime())
    changed = [store.jobs.write_runtime(job_id(n), job_runtime(JobState.KILLED)) for n in range(10)]
    gone = [store.jobs.delete(job_id(n)) for n in range(10, 20)]
    await asyncio.gather(store.jobs.query(ALL), *changed, *gone)
    page = await store.jobs.query(ALL)
    assert {(one.job_id, one.runtime.state) for one in page.jobs} == {
        (job_id(number), JobState.KILLED) for number in range(10)
    }


async def test_a_change_of_unknown_outcome_is_looked_up(store: CassandraStore) -> None:
    await store.begin_term("jobmanager", 1)
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.query(ALL)
    newer = replace(job_runtime(JobState.KILLED), revision=6)
    lose_answers(store, made=True)
    await store.jobs.write_runtime(JOB, newer)
    store._index.doubt(JOB)
    assert [one.runtime for one in (await store.jobs.query(ALL)).jobs] == [newer]


async def test_who_leads_no_longer_looks_at_all_jobs(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmanager", 1)
    assert (await old.jobs.query(ALL)).total == 0
    await new.begin_term("jobmanager", 2)
    await new.jobs.create(JOB, spec(), job_runtime())
    assert (await old.jobs.query(ALL)).total == 1

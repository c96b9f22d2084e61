"""The job index of a leader, which follows its own writes, finds what a look at all jobs finds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.model.job import JobQuery
from peloton.model.states import JobState
from storage.cassandra.batch_encoder import Bound
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
    changed = [store.write_all(job_id(n), {}, (), job_runtime(JobState.KILLED)) for n in range(10)]
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
    await store.write_all(JOB, {}, (), newer)
    store._index.mark_unconfirmed(JOB)
    assert [one.runtime for one in (await store.jobs.query(ALL)).jobs] == [newer]


async def test_who_leads_no_longer_looks_at_all_jobs(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmanager", 1)
    assert (await old.jobs.query(ALL)).total == 0
    await new.begin_term("jobmanager", 2)
    await new.jobs.create(JOB, spec(), job_runtime())
    assert (await old.jobs.query(ALL)).total == 1


class Pause:
    """Holds a handle's reads by one statement, from the first on, before they are sent or after."""

    def __init__(self, store: CassandraStore, statement: str) -> None:
        self.reached, self.released = asyncio.Event(), asyncio.Event()
        self._statement = statement
        self._row = store._session.row
        store._session.row = self._held  # type: ignore[method-assign]

    async def _held(self, name: str, *values: object, serial: bool = False) -> tuple[object, ...] | None:
        found = await self._row(name, *values, serial=serial)
        if name == self._statement:
            self.reached.set()
            await self.released.wait()
        return found


async def test_a_change_while_another_one_is_looked_up_is_not_lost(store: CassandraStore) -> None:
    await store.begin_term("jobmanager", 1)
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.query(ALL)
    store._index.mark_unconfirmed(JOB)
    pause = Pause(store, "read_indexed_config")
    query = asyncio.ensure_future(store.jobs.query(ALL))
    await pause.reached.wait()
    newer = replace(job_runtime(JobState.KILLED), revision=6)
    await store.write_all(JOB, {}, (), newer)
    pause.released.set()
    await query
    assert [one.runtime for one in (await store.jobs.query(ALL)).jobs] == [newer]


async def test_a_job_that_goes_while_it_is_looked_up_is_no_failure(open_handle: Opener) -> None:
    store, other = await open_handle(), await open_handle()
    await store.begin_term("jobmanager", 1)
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.query(ALL)
    store._index.mark_unconfirmed(JOB)
    pause = Pause(store, "read_job")
    query = asyncio.ensure_future(store.jobs.query(ALL))
    await pause.reached.wait()
    await other.jobs.delete(JOB)
    pause.released.set()
    await query
    assert (await store.jobs.query(ALL)).total == 0


async def test_what_a_caller_gave_up_is_looked_up(store: CassandraStore) -> None:
    """As a client's time-out makes a service do in the middle of a call."""
    await store.begin_term("jobmanager", 1)
    await store.jobs.query(ALL)
    decide = store._session.decide
    sent = asyncio.Event()

    async def seen(parts: Sequence[Bound]) -> bool:
        sent.set()
        return await decide(parts)

    store._session.decide = seen  # type: ignore[method-assign]
    call = asyncio.ensure_future(store.jobs.create(JOB, spec(), job_runtime()))
    await sent.wait()
    await asyncio.sleep(0)
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    async with asyncio.timeout(60):
        while not (await store.jobs.query(ALL)).total:  # noqa: ASYNC110 - another task's work
            await asyncio.sleep(0.01)
    assert await store.jobs.active() == (JOB,)


async def test_a_query_given_up_loses_no_change(store: CassandraStore) -> None:
    """Those that it was about to take into the database, while the database answers an earlier one."""
    await store.begin_term("jobmanager", 1)
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.query(ALL)
    database = store._index._database
    assert database is not None
    busy, free = threading.Event(), threading.Event()

    def answer() -> None:
        busy.set()
        free.wait(20)

    database._thread.submit(answer)
    await asyncio.to_thread(busy.wait)
    newer = replace(job_runtime(JobState.KILLED), revision=6)
    await store.write_all(JOB, {}, (), newer)
    query = asyncio.ensure_future(store.jobs.query(ALL))
    while store._index._changes:  # noqa: ASYNC110 - until the query has taken them
        await asyncio.sleep(0.001)
    query.cancel()
    with suppress(asyncio.CancelledError):
        await query
    free.set()
    assert [one.runtime for one in (await store.jobs.query(ALL)).jobs] == [newer]

"""What is Cassandra's own: lost answers, creations cut off, terms without transactions, large things."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID, uuid4

import pytest
from cassandra.metadata import Murmur3Token

from peloton.api.v0.job import job_pb2
from peloton.errors import AlreadyExists, Conflict, Fenced, NotFound, Unavailable
from peloton.membership.interface import Role
from peloton.model.ids import JobId
from peloton.model.job import JobQuery, JobSpec
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import JobState
from peloton.model.task import TaskRuntime
from peloton.wire.job import job_spec
from peloton.wire.payload import job_config
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.configs import ConfigRow
from storage.cassandra.connection import Connection
from storage.cassandra.ranges import token_ranges
from storage.cassandra.session import Session
from storage.cassandra.store import CassandraStore
from storage.jobindex.entries import IndexedConfig
from tests.contract.storage.samples import HOUR, event, job_id, job_runtime, spec, task_runtime
from tests.integration.cassandra.conftest import Opener

JOB = job_id(1)


def lose_answers(store: CassandraStore, *, made: bool, times: int = 1) -> None:
    """Of the next conditional writes, which are `made` or not."""
    decide = partial(Session.decide, store._session)
    left = times

    async def losing(parts: Sequence[Bound]) -> bool:
        nonlocal left
        if not left:
            return await decide(parts)
        left -= 1
        if made:
            await decide(parts)
        raise Unavailable("the answer is lost")

    store._session.decide = losing  # type: ignore[method-assign]


def cut_off_at(store: CassandraStore, statement: str) -> None:
    """Of the writes of one statement none is made any more, as if the process had died before."""
    write = store._session.write

    async def until_then(name: str, *values: object) -> None:
        if name == statement:
            raise Unavailable("cut off")
        await write(name, *values)

    store._session.write = until_then  # type: ignore[method-assign]


async def test_a_change_whose_answer_is_lost_is_made_once(store: CassandraStore) -> None:
    lose_answers(store, made=True)
    await store.jobs.create(JOB, spec(), job_runtime())
    for made in (True, False):
        lose_answers(store, made=made)
        before = (await store.jobs.runtime(JOB)).revision
        newer = replace(job_runtime(), revision=before + 1)
        await store.write_all(JOB, {}, (), newer)
        assert await store.jobs.runtime(JOB) == newer
    lose_answers(store, made=True)
    await store.jobs.add_config(JOB, spec(2))
    lose_answers(store, made=True)
    await store.jobs.delete(JOB)
    with pytest.raises(NotFound):
        await store.jobs.runtime(JOB)


def with_cpus(cpus: float, padding: int = 0) -> JobSpec:
    """The second version of a config; the number is in one instance's, of which the index takes no notice."""
    config = job_config(spec(2, command="x" * padding).payload)
    config.instanceConfig[1].resource.cpuLimit = cpus
    return job_spec(config, 2)


@pytest.mark.parametrize("padding", [0, 200_000], ids=["small", "large"])
async def test_another_config_is_not_taken_for_the_one_whose_answer_is_lost(
    store: CassandraStore, padding: int
) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.add_config(JOB, with_cpus(1.0, padding))
    lose_answers(store, made=True)
    with pytest.raises(AlreadyExists):
        await store.jobs.add_config(JOB, with_cpus(2.0, padding))
    assert await store.jobs.config(JOB, 2) == with_cpus(1.0, padding)


async def test_a_creation_cut_off_before_the_job_is_there_is_invisible(open_handle: Opener) -> None:
    store, other = await open_handle(), await open_handle()
    lose_answers(store, made=False)
    with pytest.raises(Unavailable):
        await store.jobs.create(JOB, spec(), job_runtime())
    for handle in (store, other):
        assert await handle.jobs.active() == ()
        assert (await handle.jobs.query(JobQuery())).total == 0
        with pytest.raises(NotFound):
            await handle.jobs.runtime(JOB)
    await other.jobs.create(JOB, spec(), job_runtime())
    assert await store.jobs.active() == (JOB,)


async def test_a_creation_cut_off_after_that_is_whole(open_handle: Opener) -> None:
    store, other = await open_handle(), await open_handle()
    cut_off_at(store, "confirm_active")
    with pytest.raises(Unavailable):
        await store.jobs.create(JOB, spec(), job_runtime())
    assert await other.jobs.active() == (JOB,)
    assert await other.jobs.config(JOB, 1) == spec()
    assert (await other.jobs.query(JobQuery())).total == 1
    with pytest.raises(AlreadyExists):
        await other.jobs.create(JOB, spec(), job_runtime())


async def test_a_second_creation_does_not_wake_a_retired_job(open_handle: Opener) -> None:
    store = await open_handle()
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.retire(JOB)
    with pytest.raises(AlreadyExists):
        await store.jobs.create(JOB, spec(), job_runtime())
    assert await store.jobs.active() == ()


async def cut_off_deletion(store: CassandraStore) -> None:
    """A job with tasks is gone, and its tasks are not."""
    await store.jobs.create(JOB, large_spec(), job_runtime())
    await store.write_all(JOB, dict.fromkeys((0, 5000), task_runtime()), [event(JOB)])
    await store.jobs.retire(JOB)
    cut_off_at(store, "delete_tasks")
    with pytest.raises(Unavailable):
        await store.jobs.delete(JOB)
    with pytest.raises(NotFound):
        await store.jobs.runtime(JOB)


async def test_a_job_made_again_has_nothing_of_a_deletion_cut_off(open_handle: Opener) -> None:
    first, then = await open_handle(), await open_handle()
    await cut_off_deletion(first)
    for store in (first, then):
        assert await store.jobs.active() == ()
    await then.jobs.create(JOB, spec(), job_runtime())
    with pytest.raises(AlreadyExists):
        await then.jobs.create(JOB, spec(), job_runtime())
    await then.write_all(JOB, {1: task_runtime(2)})
    assert [list(page) async for page in then.tasks.list(JOB)] == [[1]]
    assert list(await then.pod_events.list(JOB, 0)) == []
    assert await then.jobs.active() == (JOB,)
    await then.jobs.retire(JOB)
    with pytest.raises(AlreadyExists):
        await then.jobs.create(JOB, spec(), job_runtime())
    assert [list(page) async for page in then.tasks.list(JOB)] == [[1]]


async def test_a_leader_finishes_deletions_that_were_cut_off(
    open_handle: Opener, connection: Connection
) -> None:
    """And leaves alone what is there again, or still."""
    first, then = await open_handle(), await open_handle()
    await first.jobs.create(job_id(2), spec(), job_runtime())
    await first.write_all(job_id(2), {0: task_runtime()})
    lose_answers(first, made=False, times=100)
    with pytest.raises(Conflict):
        await first.jobs.delete(job_id(2))
    lose_answers(first, made=False, times=0)
    await cut_off_deletion(first)
    await then.begin_term(Role.JOBMGR.value, 1)
    async with asyncio.timeout(60):
        while len(connection.execute("SELECT job_id FROM task_buckets")) > 1:  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.05)
    assert connection.execute("SELECT instance FROM tasks") == [(0,)]
    assert await then.jobs.active() == (job_id(2),)
    await then.jobs.delete(job_id(2))
    assert connection.execute("SELECT instance FROM tasks") == []
    assert connection.execute("SELECT job_id FROM active_jobs") == []


class Freeze:
    """Holds a handle's writes between the look at the term and the write, as a stopped process would."""

    def __init__(self, store: CassandraStore) -> None:
        self.reached, self.released = asyncio.Event(), asyncio.Event()
        self._check = store._terms.check
        store._terms.check = self._checked  # type: ignore[method-assign]

    async def _checked(self, job_id: JobId | None = None) -> None:
        await self._check(job_id)
        self.reached.set()
        await self.released.wait()


async def test_a_leader_that_stood_still_loses_against_what_the_next_one_wrote(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmanager", 1)
    await old.jobs.create(JOB, spec(), job_runtime())
    freeze = Freeze(old)
    plain = asyncio.ensure_future(old.write_all(JOB, {0: task_runtime(1)}))
    await freeze.reached.wait()

    await new.begin_term("jobmanager", 2)
    await new.write_all(JOB, {0: task_runtime(2)})
    newer = replace(job_runtime(), revision=6)
    await new.write_all(JOB, {}, (), newer)

    freeze.released.set()
    await plain
    assert (await new.tasks.get(JOB, 0)).run == 2
    for write in (
        old.write_all(JOB, {}, (), job_runtime(JobState.FAILED)),
        old.jobs.delete(JOB),
        old.jobs.retire(JOB),
        old.write_all(JOB, {0: task_runtime(1)}, (), job_runtime(JobState.FAILED)),
    ):
        with pytest.raises(Fenced, match="term 1 is over, term 2 has begun"):
            await write
    assert await new.jobs.runtime(JOB) == newer
    assert await new.jobs.active() == (JOB,)


async def test_a_leader_whose_clock_is_behind_is_not_overruled(open_handle: Opener) -> None:
    """Nor does it matter after it that of two clocks one was an hour ahead."""
    ahead, behind, last = await open_handle(), await open_handle(), await open_handle()
    ahead._session.advance_beyond(ahead._session.timestamp() + HOUR // 1000)
    job = job_id(99)  # no other test's: what is deleted in an hour is so until then
    for term, store in enumerate((ahead, behind, last), 1):
        await store.begin_term("jobmanager", term)
        await store.jobs.create(job, spec(), job_runtime())
        await store.write_all(job, {0: task_runtime(term)}, [event(job, run=term)])
        await store.hosts.write_framework_id("Elsewhere", f"f-{term}")
        assert await store.jobs.active() == (job,)
        assert (await store.tasks.get(job, 0)).run == term
        assert [one.run for one in await store.pod_events.list(job, 0)] == [term]
        assert await store.hosts.framework_id("Elsewhere") == f"f-{term}"
        await store.jobs.delete(job)


async def test_timestamps_are_reserved_before_they_are_used(
    open_handle: Opener, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.cassandra.terms.AHEAD_MICROSECONDS", 0)
    monkeypatch.setattr("storage.cassandra.terms.LEAST_AHEAD_MICROSECONDS", 3)
    store, other = await open_handle(), await open_handle()
    await store.begin_term("jobmanager", 1)
    await other.begin_term("jobmanager", 1)
    for _ in range(5):
        await asyncio.gather(*(store.write_all(job_id(n), {0: task_runtime()}) for n in range(5)))
        await asyncio.gather(*(other.write_all(job_id(n), {0: task_runtime(2)}) for n in range(5)))
        ((reserved,),) = connection.execute("SELECT stamps FROM terms")
        assert all(when <= reserved for (when,) in connection.execute("SELECT writetime(runtime) FROM tasks"))
    await other.begin_term("jobmanager", 2)
    with pytest.raises(Fenced):
        for _ in range(10):
            await store._terms.timestamp()


async def test_an_owner_of_shards_reserves_timestamps_though_another_one_leads(
    open_handle: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("terms", "shard_terms"):
        monkeypatch.setattr(f"storage.cassandra.{module}.AHEAD_MICROSECONDS", 0)
        monkeypatch.setattr(f"storage.cassandra.{module}.LEAST_AHEAD_MICROSECONDS", 3)
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmgr", 1)
    await old.begin_shards("jobmgr", dict.fromkeys(range(SHARDS), 2))
    await new.begin_term("jobmgr", 2)
    for number in range(6):
        await old.write_all(JOB, {0: task_runtime(number)})
    await new.begin_shards("jobmgr", {shard_of(JOB): 3})
    await new.write_all(JOB, {0: task_runtime(9)})
    with pytest.raises(Fenced):
        await old.write_all(JOB, {0: task_runtime(7)})
    assert (await new.tasks.get(JOB, 0)).run == 9


async def test_each_write_asks_the_fence(store: CassandraStore) -> None:
    leading = True

    def fence() -> None:
        if not leading:
            raise Fenced("the lease is over")

    await store.begin_term("jobmanager", 1, fence)
    await store.jobs.create(JOB, spec(), job_runtime())
    leading = False
    for write in (
        store.write_all(JOB, {0: task_runtime()}),
        store.write_all(JOB, {}, [event(JOB)]),
        store.write_all(JOB, {}, (), job_runtime(JobState.FAILED)),
        store.jobs.create(job_id(2), spec(), job_runtime()),
        store.hosts.write_framework_id("Peloton", "f-1"),
    ):
        with pytest.raises(Fenced, match="lease"):
            await write
    assert await store.jobs.runtime(JOB) == job_runtime()


async def test_writes_share_the_look_at_the_term(store: CassandraStore) -> None:
    await store.begin_term("jobmanager", 1)
    looks = 0
    row = store._session.row

    async def counted(name: str, *values: object, serial: bool = False) -> object:
        nonlocal looks
        looks += name == "read_term"
        return await row(name, *values, serial=serial)

    store._session.row = counted  # type: ignore[method-assign, assignment]
    await asyncio.gather(*(store.write_all(job_id(n), {0: task_runtime()}) for n in range(50)))
    assert 1 <= looks <= 2


def large_spec() -> JobSpec:
    config = job_pb2.JobConfig(name="large", type=job_pb2.BATCH, instanceCount=3000)
    for instance in range(3000):
        config.instanceConfig[instance].command.value = f"echo {instance} {'x' * 400} needle-{instance}"
    return job_spec(config, 1)


async def test_what_a_cut_off_creation_left_is_swept(store: CassandraStore, connection: Connection) -> None:
    """And nothing else is."""
    large = large_spec()
    await store.jobs.create(JOB, large, job_runtime())
    (kept,) = connection.execute("SELECT count(*) FROM config_chunks")
    lose_answers(store, made=False)
    with pytest.raises(Unavailable):
        await store.jobs.create(job_id(2), large, job_runtime())
    assert connection.execute("SELECT count(*) FROM config_chunks") == [(2 * kept[0],)]
    configs = store._jobs._configs
    assert await configs.sweep(time.time_ns() // 1000 - HOUR // 1000) == 0
    assert await configs.sweep(store._session.timestamp()) == 1
    assert connection.execute("SELECT count(*) FROM config_chunks") == [kept]
    assert await store.jobs.config(JOB, 1) == large


async def put_body(
    store: CassandraStore, chunks: int, when: int, size: int = 1, body_id: UUID | None = None
) -> None:
    """A body that no config names."""
    body = ConfigRow(IndexedConfig(1, b"", ""), (), body_id or uuid4(), [os.urandom(size)] * chunks)
    await store._jobs._configs.put_body(body, when)


async def test_a_leader_sweeps_what_is_old(store: CassandraStore, connection: Connection) -> None:
    for age in (13, 15):
        await put_body(store, age, (time.time_ns() - age * 24 * HOUR) // 1000)
    await store.begin_term(Role.JOBMGR.value, 1)
    async with asyncio.timeout(60):
        while len(connection.execute("SELECT body_id FROM config_bodies")) > 1:  # noqa: ASYNC110 - the server's
            await asyncio.sleep(0.05)
    assert connection.execute("SELECT count(*) FROM config_chunks") == [(13,)]


def side_by_side(connection: Connection) -> Iterator[UUID]:
    """Bodies whose first chunks lie in one sixteenth of the ring."""
    low, high = next(token_ranges(16))
    chunk = connection.prepared["read_chunk"]
    while True:
        body_id = uuid4()
        if low <= Murmur3Token.hash_fn(chunk.bind((body_id, 0)).routing_key) <= high:
            yield body_id


async def test_sweeping_reads_no_chunks(store: CassandraStore, connection: Connection) -> None:
    """These are half the server's heap: as one page of a scan they were its end."""
    for body_id in islice(side_by_side(connection), 64):
        await put_body(store, 1, 1, 4 * 1024 * 1024, body_id)
    assert await store._jobs._configs.sweep(2) == 64
    assert connection.execute("SELECT body_id FROM config_bodies") == []


async def test_a_row_is_small_whatever_the_config(store: CassandraStore, connection: Connection) -> None:
    """Rows are read by the hundred."""
    large = spec(command=f"echo {'x' * 1_000_000}")
    await store.jobs.create(JOB, large, job_runtime())
    (row,) = connection.execute("SELECT summary, words, payload FROM jobs")
    assert sum(map(len, row)) < 128 * 1024
    assert await store.jobs.config(JOB, 1) == large
    (found,) = (await store.jobs.query(JobQuery(labels=large.labels))).jobs
    assert found.spec.name == large.name and not found.spec.overrides


async def test_scans_of_all_jobs_do_not_read_the_deleted_ones(
    store: CassandraStore, connection: Connection
) -> None:
    """A server refuses a request that comes upon 100,000 things deleted, for as long as it remembers them."""
    for number in range(10):
        await store.jobs.create(job_id(number), spec(), job_runtime())
        await store.jobs.add_config(job_id(number), spec(2))
        await store.jobs.delete(job_id(number))
    (everything,) = token_ranges(1)
    sent = connection.session.execute_async(connection.prepared["scan_jobs"].bind(everything), trace=True)
    assert list(sent.result()) == []
    told = [event.description for event in sent.get_query_trace(max_wait=20).events]
    # A trace also tells what the server reads for itself, such as its sizes of tables.
    read = [line for line in told if line.startswith("Read ")]
    assert "Read 0 live rows and 0 tombstone cells" in read
    assert all(line.endswith(" and 0 tombstone cells") for line in read)


async def test_a_large_config_lies_in_chunks(store: CassandraStore, connection: Connection) -> None:
    large = large_spec()
    assert len(large.payload.data) > 1024 * 1024
    await store.jobs.create(JOB, large, job_runtime())
    with pytest.raises(AlreadyExists):
        await store.jobs.create(JOB, large, job_runtime())
    assert await store.jobs.config(JOB, 1) == large
    assert (await store.jobs.query(JobQuery(keywords=("NEEDLE-2999",)))).total == 1
    assert connection.execute("SELECT count(*) FROM config_chunks") != [(0,)]
    await store.jobs.delete(JOB)
    assert connection.execute("SELECT count(*) FROM config_chunks") == [(0,)]


async def test_partitions_are_bounded(store: CassandraStore, connection: Connection) -> None:
    await store.write_all(
        JOB,
        dict.fromkeys((0, 999, 1000, 99_999), task_runtime()),
        [event(JOB, instance) for instance in (0, 99_999)],
    )
    found = connection.execute("SELECT bucket, instance FROM tasks")
    assert sorted(found) == [(0, 0), (0, 999), (1, 1000), (99, 99_999)]
    assert [list(page) async for page in store.tasks.list(JOB, 999, 100_000)] == [[999, 1000, 99_999]]
    assert len(await store.pod_events.list(JOB, 99_999)) == 1
    await store.jobs.delete(JOB)
    assert [page async for page in store.tasks.list(JOB)] == []


class Watched(dict[int, TaskRuntime]):
    """Counts how many of its rows are taken in each turn of the event loop."""

    def __init__(self, rows: dict[int, TaskRuntime]) -> None:
        super().__init__(rows)
        self.turn = 0
        self.taken: Counter[int] = Counter()

    def items(self) -> Any:
        for item in super().items():
            self.taken[self.turn] += 1
            yield item

    async def turning(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


async def test_a_large_write_leaves_the_event_loop_its_turns(store: CassandraStore) -> None:
    """As the stop of a whole job is: it took seconds, in which nothing else was done."""
    tasks = Watched(dict.fromkeys(range(5000), task_runtime()))
    turning = asyncio.ensure_future(tasks.turning())
    await store.write_all(JOB, tasks)
    turning.cancel()
    assert sum(tasks.taken.values()) == 5000
    assert max(tasks.taken.values()) <= 1000


async def test_events_end_by_themselves(store: CassandraStore, connection: Connection) -> None:
    await store.write_all(JOB, {}, [event(JOB, timestamp=HOUR)])
    ((left,),) = connection.execute("SELECT ttl(event) FROM pod_events")
    assert 89 * 24 * 3600 < left <= 90 * 24 * 3600

"""Queries over the jobs of several owners find what one index of all jobs finds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.found_jobs import merged, whole
from jobmgr.services.private import found_jobs
from jobmgr.services.private.found_jobs import FoundJobs
from peloton.errors import InvalidArgument
from peloton.leaders import Failure
from peloton.model.job import JobKey, JobKeys, JobLosses, JobPage, JobQuery, JobScope, JobSummary, TimeRange
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import JobState
from peloton.private.jobmgr.sharing import sharing_pb2
from peloton.rpc.peers import Owner, PassedFailure, Peers
from storage.codec import JOB_RUNTIME, encode_payload
from storage.interface import Jobs
from storage.jobindex.entries import IndexedConfig, indexed_texts
from storage.jobindex.index_db import Change, IndexDatabase
from tests.contract.storage.samples import HOUR, job_id, job_runtime, spec

OWNERS = 3
COLUMNS = ("creation_time", "completion_time", "name", "owner", "state")
NAMES = ("a", "B", "ä", "zz", "")
Job = tuple[int, str, int, JobState]
"""Number, name, time of creation and state."""
ROWS = st.lists(
    st.tuples(
        st.integers(0, 400), st.sampled_from(NAMES), st.integers(0, 3), st.sampled_from(list(JobState)[:5])
    ),
    unique_by=lambda row: row[0],
    max_size=25,
)
QUERIES = st.builds(
    JobQuery,
    order=st.lists(st.tuples(st.sampled_from(COLUMNS), st.booleans()), max_size=3).map(tuple),
    offset=st.integers(0, 12),
    limit=st.integers(0, 12),
    max_limit=st.sampled_from((0, 5)),
    name=st.sampled_from(("", "a")),
)


def change_of(job: Job) -> Change:
    _, name, created, state = job
    texts = indexed_texts(spec(name=name))
    runtime = replace(job_runtime(state), creation_time=created * HOUR)
    return Change(
        JOB_RUNTIME.encode(runtime), IndexedConfig(1, encode_payload(spec(name=name).payload), texts.words)
    )


async def indexed(jobs: Sequence[Job]) -> IndexDatabase:
    database = IndexDatabase()
    await database.prepare()
    await database.insert([(job_id(job[0]), change_of(job)) for job in jobs])
    return database


def shards_of(owner: int) -> frozenset[int]:
    return frozenset(range(owner, SHARDS, OWNERS))


@settings(max_examples=60, deadline=None)
@given(jobs=ROWS, query=QUERIES)
def test_pages_of_all_owners_are_those_of_one_index(jobs: list[Job], query: JobQuery) -> None:
    async def compare() -> None:
        database = await indexed(jobs)
        parts = []
        for owner in range(OWNERS):
            keys, total = await database.find_keys(query, shards_of(owner))
            parts.append(JobKeys(shards_of(owner), keys, total))
        page = await database.find(query)
        assert merged(query, parts) == ([job.job_id for job in page.jobs], page.total)
        await database.close()

    asyncio.run(compare())


def test_each_shard_counts_once() -> None:
    parts = [shards_of(owner) for owner in range(OWNERS)]
    assert whole(parts)
    assert not whole(parts[:2])
    assert not whole([*parts, {5}])


async def test_jobs_of_shards_are_dropped() -> None:
    jobs: list[Job] = [(number, "a", 1, JobState.RUNNING) for number in range(50)]
    database = await indexed(jobs)
    await database.drop_shards(shards_of(0))
    left = {job.job_id for job in (await database.find(JobQuery(limit=100))).jobs}
    assert left == {job_id(number) for number in range(50) if shard_of(job_id(number)) % OWNERS}
    assert (await database.find(JobQuery(limit=100, keywords=("sleep",)))).total <= len(left)
    await database.close()


# --- asking the owners ---


class Part:
    """The jobs of one owner: `storage.interface.Jobs`, as far as it is asked."""

    def __init__(self, database: IndexDatabase, shards: Collection[int]) -> None:
        self.database = database
        self.shards = frozenset(shards)
        self.reads_all = 0

    async def find_keys(self, query: JobQuery) -> JobKeys:
        keys, total = await self.database.find_keys(query, self.shards)
        return JobKeys(self.shards, keys, total)

    async def summaries(self, job_ids: Collection[str]) -> Sequence[JobSummary]:
        mine = [each for each in job_ids if shard_of(each) in self.shards]
        return await self.database.summaries(mine)

    async def find_losses(self) -> JobLosses:
        return JobLosses(self.shards, await self.database.lost_seconds(self.shards))

    async def query(self, query: JobQuery) -> JobPage:
        self.reads_all += 1
        return await self.database.find(query)

    async def lost_seconds(self) -> Mapping[str, float]:
        self.reads_all += 1
        return await self.database.lost_seconds()


class Others:
    """The other owners, called without a network: `peloton.rpc.peers.Peers`, as far as it is asked."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self.parts = dict(parts)
        self.looks = 0
        self.then: Any = None
        """Called when the table of shards is waited for."""

    def others(self) -> list[Owner]:
        return [Owner(name, name) for name in sorted(self.parts)]

    async def changed(self, within: float) -> None:
        self.looks += 1
        await asyncio.sleep(0)
        if self.then is not None:
            self.then()

    async def call(self, owner: Owner, path: str, request: Any, answer: Any, *rest: Any) -> Any:
        if owner.target not in self.parts:
            raise PassedFailure(Failure.GONE, grpc.StatusCode.UNAVAILABLE, "gone", ())
        jobs = cast(Jobs, self.parts[owner.target])
        sent = type(request).FromString(request.SerializeToString())
        made: Any
        match path.rpartition("/")[2]:
            case "FindLosses":
                made = await found_jobs.find_losses(jobs)
            case "FindJobs":
                made = await found_jobs.find_jobs(jobs, sent)
            case _:
                made = await found_jobs.found_jobs(jobs, sent)
        return answer.FromString(made.SerializeToString())


@pytest.fixture
async def database() -> Any:
    jobs: list[Job] = [(number, f"job{number:02}", number, JobState.RUNNING) for number in range(60)]
    made = await indexed(jobs)
    yield made
    await made.close()


def asking(database: IndexDatabase) -> tuple[FoundJobs, Part, Others]:
    own = Part(database, shards_of(0))
    others = Others({"b": Part(database, shards_of(1)), "c": Part(database, shards_of(2))})
    return FoundJobs(cast(Jobs, own), cast(Peers, others), ()), own, others


@contextmanager
def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Any:
    monkeypatch.setattr(found_jobs, "PATIENCE_SECONDS", seconds)
    yield


async def test_owners_are_asked_and_no_one_reads_all_jobs(database: IndexDatabase) -> None:
    found, own, others = asking(database)
    query = JobQuery(
        states=frozenset({JobState.RUNNING}),
        labels=(("team", "maps"),),
        within=(JobScope(owner="maintainer"),),
        created=TimeRange(start=2 * HOUR),
        offset=5,
        limit=20,
    )
    page = await found.query(query)
    assert page == await database.find(query)
    assert len(page.jobs) == 20
    assert not own.reads_all and not others.looks


async def test_a_page_is_found_whoever_owns_the_jobs_by_then(database: IndexDatabase) -> None:
    """The place of a page in the result is its cursor."""
    found, own, others = asking(database)
    first = await found.query(JobQuery(limit=30))
    own.shards |= others.parts.pop("b").shards
    second = await found.query(JobQuery(offset=30, limit=30))
    ids = [job.job_id for job in (*first.jobs, *second.jobs)]
    assert ids == [job.job_id for job in (await database.find(JobQuery(limit=60))).jobs]
    assert not own.reads_all


async def test_owners_are_asked_again_while_a_shard_moves(database: IndexDatabase) -> None:
    found, own, others = asking(database)
    moving = others.parts["b"]
    shards, moving.shards = moving.shards, moving.shards - {1}
    others.then = lambda: setattr(moving, "shards", shards)
    assert await found.query(JobQuery(limit=60)) == await database.find(JobQuery(limit=60))
    assert (others.looks, own.reads_all) == (1, 0)


async def test_a_job_that_two_owners_have_is_not_counted_twice(database: IndexDatabase) -> None:
    found, own, others = asking(database)
    shards, own.shards = own.shards, own.shards | {1}
    others.then = lambda: setattr(own, "shards", shards)
    assert await found.query(JobQuery(limit=60)) == await database.find(JobQuery(limit=60))
    assert (others.looks, own.reads_all) == (1, 0)


async def test_the_store_reads_all_jobs_where_owners_cannot_tell(
    database: IndexDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, own, others = asking(database)
    del others.parts["c"]
    with patience(monkeypatch, 0.05):
        assert await found.query(JobQuery(limit=60)) == await database.find(JobQuery(limit=60))
    assert own.reads_all == 1 and others.looks


def losing(job: Job) -> Change:
    """A job that has lost as many seconds as its number."""
    runtime = replace(job_runtime(), resource_usage={"lost": float(job[0])})
    return replace(change_of(job), runtime=JOB_RUNTIME.encode(runtime))


async def test_losses_of_all_owners_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    database = IndexDatabase()
    await database.prepare()
    jobs: list[Job] = [(number, "a", 1, JobState.RUNNING) for number in range(60)]
    await database.insert([(job_id(job[0]), losing(job)) for job in jobs])
    found, own, others = asking(database)
    assert await found.lost_seconds() == {spec().pool_id: sum(range(60))}
    assert (own.reads_all, others.looks) == (0, 0)
    del others.parts["c"]
    with patience(monkeypatch, 0.05):
        assert await found.lost_seconds() == {spec().pool_id: sum(range(60))}
    assert own.reads_all == 1 and others.looks
    await database.close()


def test_keys_are_ordered_by_each_property_and_by_id() -> None:
    def part(owner: int, *keys: tuple[str, int]) -> JobKeys:
        return JobKeys(shards_of(owner), tuple(JobKey(each, (value,)) for each, value in keys), len(keys))

    query = JobQuery(order=(("state", True),), limit=10)
    parts = [part(0, ("b", 2), ("d", 1)), part(1, ("a", 2), ("c", 1)), part(2)]
    assert merged(query, parts) == (["a", "b", "c", "d"], 4)


@pytest.mark.parametrize("query", [b"", b"\xff", b"[]", b'{"limit": "many"}'])
async def test_what_is_no_query_is_refused(query: bytes) -> None:
    no_store: Any = None
    with pytest.raises(InvalidArgument, match=r"^query: .* is not a query for jobs as JSON: "):
        await found_jobs.find_jobs(no_store, sharing_pb2.FindJobsRequest(query=query))

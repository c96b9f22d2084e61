"""v0 JobManager.Query: the translation, and the answers over the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf import text_format

from jobmgr.services.common.job_query import (
    ENDED_REACH_NANOSECONDS,
    LATEST_NANOSECONDS,
    InvalidPool,
    job_query,
)
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.job import TimeRange
from peloton.model.pool import pool_path
from peloton.model.states import JobState
from tests.unit.jobmgr_services.configs import PARENT, POOL, POOLS
from tests.unit.jobmgr_services.conftest import Served
from tests.unit.jobmgr_services.fakes import NOW

IDS = [f"a0000000-0000-4000-8000-00000000000{i}" for i in range(3)]


def request(text: str) -> job_pb2.QueryRequest:
    return text_format.Parse(text, job_pb2.QueryRequest())


def query(text: str):  # type: ignore[no-untyped-def]
    return job_query(request(text), POOLS, NOW)


def test_defaults() -> None:
    found = query("spec {}")
    assert found.order == (("creation_time", True),)
    assert (found.max_limit, found.offset, found.limit) == (0, 0, 10)
    assert found.pool_id == "" and found.completed is None and found.created == TimeRange()


def test_all_fields() -> None:
    found = query(
        """spec { labels { key: "a" value: "b" } keywords: "k" keywords: "" jobStates: RUNNING
        owner: "o" name: "n*"
        creationTimeRange { min { seconds: 5 } } completionTimeRange { max { seconds: 7 nanos: 1 } }
        pagination { offset: 3 limit: 50 maxLimit: 60 orderBy { order: ASC property { value: "name" } }
                     orderBy { order: DESC property { value: "state" } } } }"""
    )
    assert found.labels == (("a", "b"),) and found.keywords == ("k",)
    assert found.states == {JobState.RUNNING} and found.owner == "o" and found.name == "n*"
    assert found.created == TimeRange(5_000_000_000, None)
    assert found.completed == TimeRange(None, 7_000_000_001)
    assert found.order == (("name", False), ("state", True))
    assert (found.max_limit, found.offset, found.limit) == (60, 3, 50)


def test_limit_is_at_most_100() -> None:
    assert query("spec { pagination { limit: 101 } }").limit == 100


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("spec { jobStates: SUCCEEDED }", NOW - ENDED_REACH_NANOSECONDS),
        ("spec { jobStates: RUNNING jobStates: FAILED }", NOW - ENDED_REACH_NANOSECONDS),
        ("spec { jobStates: RUNNING }", None),
        ("spec { jobStates: SUCCEEDED creationTimeRange { min { seconds: 1 } } }", 10**9),
        ("spec { jobStates: SUCCEEDED completionTimeRange { min { seconds: 1 } } }", None),
    ],
)
def test_terminal_states_reach_back_seven_days(text: str, start: int | None) -> None:
    assert query(text).created.start == start


def test_times_beyond_64_bits_are_the_last_one() -> None:
    found = query("spec { creationTimeRange { max { seconds: 253402300799 } } }")
    assert found.created.end == LATEST_NANOSECONDS


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ('spec { respool { value: "/teams/batch" } }', POOL),
        ('spec { respool { value: "/teams" } }', PARENT),
        ('spec { respool { value: "/" } }', "root"),
        ('spec { respool { value: "" } }', ""),
        (f'spec {{}} respoolID {{ value: "{POOL}" }}', POOL),
        (f'spec {{ respool {{ value: "/teams/batch/" }} }} respoolID {{ value: "{POOL}" }}', POOL),
    ],
)
def test_pools(text: str, pool: str) -> None:
    assert query(text).pool_id == pool


@pytest.mark.parametrize(
    "text",
    [
        'spec { respool { value: "/nosuch" } }',
        'spec {} respoolID { value: "nosuch" }',
        f'spec {{ respool {{ value: "/teams" }} }} respoolID {{ value: "{POOL}" }}',
    ],
)
def test_refuses_pools(text: str) -> None:
    with pytest.raises(InvalidPool):
        query(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spec { jobStates: 77 }", "spec.jobStates[0]"),
        (
            "spec { creationTimeRange { min { seconds: 2 } max { seconds: 1 } } }",
            "spec.creationTimeRange.min",
        ),
        (
            "spec { completionTimeRange { min { seconds: 2 } max { seconds: 1 } } }",
            "spec.completionTimeRange.min",
        ),
        (
            "spec { creationTimeRange { max { seconds: 999999999999 } } }",
            "spec.creationTimeRange.max",
        ),
        ("spec { creationTimeRange { min { nanos: -5 } } }", "spec.creationTimeRange.min"),
        (
            'spec { pagination { orderBy { property { value: "colour" } } } }',
            "spec.pagination.orderBy[0].property",
        ),
        (
            'spec { pagination { orderBy { order: 7 property { value: "name" } } } }',
            "spec.pagination.orderBy[0].order",
        ),
    ],
)
def test_refuses(text: str, path: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        query(text)
    assert refusal.value.field == path


def test_paths() -> None:
    assert [pool_path(each, POOLS) for each in ("root", PARENT, POOL, "x")] == [
        "/",
        "/teams",
        "/teams/batch",
        "",
    ]


@pytest.fixture
async def three(served: Served) -> Served:
    """Jobs 0 to 2; job 2 has ended."""
    for i, each in enumerate(IDS):
        text = f'name: "job{i}" labels {{ key: "n" value: "{i}" }} instanceConfig {{ key: 1 value {{}} }}'
        await served.create(text, each)
    await served.engine.end(IDS[2], state=JobState.SUCCEEDED, completion_time=NOW)
    return served


async def test_query_returns_the_cached_runtime(three: Served) -> None:
    cached = three.engine.held[IDS[1]]
    cached.runtime = replace(cached.runtime, start_time=NOW)
    text = 'spec { pagination { limit: 2 orderBy { order: DESC property { value: "name" } } } }'
    answer = await three.jobs.Query(request(text))
    assert [each.config.name for each in answer.records] == ["job2", "job1"]
    assert [each.id.value for each in answer.results] == [IDS[2], IDS[1]]
    assert answer.records[1].runtime.startTime and not answer.records[0].runtime.startTime
    assert not answer.records[0].config.instanceConfig
    page = answer.pagination
    assert (page.offset, page.limit, page.total) == (0, 2, 3)
    assert not answer.HasField("error")


async def test_summary_only_and_filters(three: Served) -> None:
    text = 'summaryOnly: true spec { jobStates: SUCCEEDED respool { value: "/teams/batch" } }'
    answer = await three.jobs.Query(request(text))
    assert [each.name for each in answer.results] == ["job2"] and not answer.records
    assert answer.spec.creationTimeRange.min.ToNanoseconds() == NOW - ENDED_REACH_NANOSECONDS
    answer = await three.jobs.Query(request('spec { labels { key: "n" value: "1" } keywords: "hello" }'))
    assert [each.id.value for each in answer.results] == [IDS[1]]


async def test_without_a_spec_the_answer_is_empty(three: Served) -> None:
    assert await three.jobs.Query(job_pb2.QueryRequest(summaryOnly=True)) == job_pb2.QueryResponse()


async def test_errors_are_in_the_answer(three: Served) -> None:
    answer = await three.jobs.Query(request('spec { respool { value: "/nosuch" } }'))
    assert "/nosuch" in answer.error.invalidRespool.message and not answer.results
    answer = await three.jobs.Query(request("spec { jobStates: 77 }"))
    assert "jobStates" in answer.error.err.message and not answer.results

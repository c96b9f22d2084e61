"""Jobs grouped and counted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.calls import web

from .fake import FakeCluster, application, browser
from .jobs_cluster import POOL, pools

EVIL = "<img src=x>"


def summary(number: int, **of: Any) -> job_pb2.JobSummary:
    of.setdefault("runtime", job_pb2.RuntimeInfo(state=job_pb2.RUNNING, taskStats={"RUNNING": 2}))
    of.setdefault("instanceCount", 3)
    return job_pb2.JobSummary(id=peloton_pb2.JobID(value=f"job-{number}"), name=f"j{number}", **of)


def label(value: str) -> list[peloton_pb2.Label]:
    return [peloton_pb2.Label(key="tier", value=value), peloton_pb2.Label(key=EVIL, value="v")]


JOBS = [
    summary(0, owner="ada", labels=label("gold"), respoolID=peloton_pb2.ResourcePoolID(value=POOL)),
    summary(1, owner="ada", labels=label("gold"), type=job_pb2.SERVICE),
    summary(2, owner=EVIL, labels=label(EVIL), instanceCount=100),
    summary(3),
]


def answer(jobs: list[job_pb2.JobSummary], total: int = 0) -> Any:
    def query(request: job_pb2.QueryRequest) -> job_pb2.QueryResponse:
        page = request.spec.pagination
        shown = jobs[page.offset : page.offset + page.limit]
        return job_pb2.QueryResponse(results=shown, pagination=query_pb2.Pagination(total=total or len(jobs)))

    return query


@pytest.fixture
def found() -> FakeCluster:
    return FakeCluster({web.QUERY_JOBS: answer(JOBS), web.QUERY_POOLS: pools()})


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def rows(client: TestClient, by: str) -> list[list[str]]:
    """The groups as they are shown: name, jobs, instances."""
    page = client.get("/groups", params={"by": by}).text
    assert "<img" not in page
    body = page[page.index("<tbody>") :]
    lines = [re.sub(r"<svg.*?</svg>|<[^>]+>", " ", row, flags=re.S).split() for row in body.split("<tr>")[1:]]
    return [line[:3] for line in lines]


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ("owner", [["&lt;img", "src=x&gt;", "1"], ["ada", "2", "6"], ["(none)", "1", "3"]]),
        ("label:tier", [["&lt;img", "src=x&gt;", "1"], ["gold", "2", "6"], ["(none)", "1", "3"]]),
        ("pool", [["(none)", "3", "106"], ["/a", "1", "3"]]),
        ("type", [["batch", "3", "106"], ["service", "1", "3"]]),
        ("state", [["running", "4", "109"]]),
    ],
)
def test_jobs_are_counted_by(client: TestClient, by: str, wanted: list[list[str]]) -> None:
    assert rows(client, by) == wanted


def test_a_group_leads_to_its_jobs_where_a_search_finds_just_them(client: TestClient) -> None:
    assert 'href="/jobs?owner=ada"' in client.get("/groups?by=owner").text
    assert 'href="/jobs?labels=tier%3Dgold"' in client.get("/groups?by=label:tier").text
    assert 'href="/jobs?pool=%2Fa"' in client.get("/groups").text


def test_the_keys_of_labels_are_offered(client: TestClient) -> None:
    assert '<option value="label:tier">' in client.get("/groups").text


@pytest.mark.parametrize("by", ["colour", "label:", "label"])
def test_another_grouping_is_refused(client: TestClient, by: str) -> None:
    assert client.get("/groups", params={"by": by}).status_code == 400


def test_of_many_jobs_the_newest_are_counted_and_that_is_said(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = answer([summary(number) for number in range(1500)], 1500)
    page = client.get("/groups?by=type").text
    assert "The newest 1,000 of 1,500 jobs that have not ended" in page and ">1,000</td>" in page
    asked: list[Any] = [request for called, _, request in found.asked if called is web.QUERY_JOBS]
    assert [request.spec.pagination.offset for request in asked] == list(range(0, 1000, 100))
    assert job_pb2.SUCCEEDED not in asked[0].spec.jobStates and job_pb2.RUNNING in asked[0].spec.jobStates


def test_nothing_runs(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = answer([])
    assert "No job runs or waits." in client.get("/groups").text

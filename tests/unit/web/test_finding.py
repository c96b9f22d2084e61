"""The box that finds jobs, tasks, hosts and pools."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.calls import web
from peloton.errors import Unauthenticated, Unavailable
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2

from .fake import FakeCluster, application, browser
from .jobs_cluster import EVIL, JOB

OTHER = "91b1ee88-0000-4a51-8cb4-d1e1b7e4b5a0"
NAMES = {JOB: "mill", OTHER: "mill of <b>ada"}


def jobs(request: job_pb2.QueryRequest) -> job_pb2.QueryResponse:
    """As the index answers: by a part of the name, or by the whole name or the beginning of the id."""
    spec = request.spec
    hits = [
        job_pb2.JobSummary(
            id=peloton_pb2.JobID(value=job_id), name=name, instanceCount=5, owningTeam="ada",
            runtime=job_pb2.RuntimeInfo(state=job_pb2.RUNNING),
        )
        for job_id, name in NAMES.items()
        if (spec.name and spec.name in name)
        or (spec.reference and (name == spec.reference or job_id.startswith(spec.reference)))
    ]  # fmt: skip
    return job_pb2.QueryResponse(results=hits, pagination=query_pb2.Pagination(total=len(hits)))


@pytest.fixture
def found() -> FakeCluster:
    infos = [host_pb2.HostInfo(hostname=name, state=host_pb2.HOST_STATE_UP) for name in ("rack-7", EVIL)]
    return FakeCluster(
        {
            web.QUERY_JOBS: jobs,
            web.QUERY_HOSTS: host_svc_pb2.QueryHostsResponse(host_infos=infos),
            web.GET_HOST_CACHE: hostmgr_svc_pb2.GetHostCacheResponse(),
            web.LIST_POOLS: monitoring_pb2.ListPoolsResponse(
                pools=[
                    monitoring_pb2.Pool(id="root", path="/"),
                    monitoring_pb2.Pool(id="p", path="/ads", parent="root", leaf=True),
                    monitoring_pb2.Pool(id="q", path="/ads/rack", parent="p", leaf=True),
                ]
            ),
        }
    )


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def led_to(client: TestClient, text: str) -> str:
    """Where the form leads."""
    answer = client.get("/search", params={"q": text}, follow_redirects=False)
    assert answer.status_code in (200, 307), answer.text
    return answer.headers.get("location", "")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (JOB, f"/jobs/{JOB}"),
        ("MILL", ""),
        ("mill of", f"/jobs/{OTHER}"),
        ("mill-3", f"/jobs/{JOB}/instances/3"),
        ("mill/3", f"/jobs/{JOB}/instances/3"),
        (f"{JOB}-4-17", f"/jobs/{JOB}/instances/4"),
        ("mill-5", ""),
        ("rack-7", "/hosts/rack-7"),
        ("/ads", "/pools/p"),
        ("  /ads/RACK ", "/pools/q"),
        ("rack", ""),
        ("nothing", ""),
        ("", ""),
    ],
)
def test_what_is_meant_without_doubt_is_gone_to(client: TestClient, text: str, url: str) -> None:
    assert led_to(client, text) == url


def test_a_choice_is_listed_by_kind(client: TestClient) -> None:
    page = client.get("/search?q=rack").text
    assert "/hosts/rack-7" in page and "/ads/rack" in page and "<h2>Pools</h2>" in page
    assert "<h2>Jobs</h2>" not in page
    assert "Nothing has “nothing” in its name" in client.get("/search?q=nothing").text


def test_the_list_below_the_box_is_a_part_of_a_page(client: TestClient) -> None:
    lines = client.get("/search/lines?q=mill").text
    assert "<html" not in lines and f'href="/jobs/{OTHER}"' in lines and "mill of &lt;b&gt;ada" in lines


def test_names_and_the_text_itself_are_escaped(client: TestClient) -> None:
    for path in ("/search", "/search/lines"):
        page = client.get(path, params={"q": "<script>alert(1)"}).text
        assert "<script>alert" not in page and "<img src=x" not in page
        assert "&lt;script&gt;" in page


def test_what_cannot_be_asked_is_said_beside_what_was_found(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_HOSTS] = Unavailable("hostmgr does not answer")
    page = client.get("/search?q=ads").text
    assert "Hosts: hostmgr does not answer" in page and "/pools/q" in page


def test_strangers_are_led_to_the_login(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = Unauthenticated("who are you")
    answer = client.get("/search?q=mill", follow_redirects=False)
    assert answer.headers["location"].startswith("/login?next=%2Fsearch")


def test_a_long_text_is_refused(client: TestClient) -> None:
    assert client.get("/search", params={"q": "x" * 201}).status_code == 400


def test_every_page_has_the_box(client: TestClient) -> None:
    page = client.get("/search").text
    assert '<form id="find" method="get" action="/search"' in page and "/static/find.js?v=" in page


def test_each_kind_is_asked_for_no_more_lines_than_are_shown(client: TestClient, found: FakeCluster) -> None:
    client.get("/search/lines?q=mill")
    asked: list[Any] = [request for called, _, request in found.asked if called is web.QUERY_JOBS]
    assert asked and all(request.spec.pagination.limit == 8 for request in asked)

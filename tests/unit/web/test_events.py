"""The feed of events: what is told, in which order, page by page."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls import web
from peloton.clock import rfc3339
from peloton.errors import Unauthenticated, Unavailable
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2
from peloton.web.formats import seconds_of

from .fake import NOW, FakeCluster, application, browser
from .jobs_cluster import EVIL, workflow_info


def at(seconds_ago: float) -> str:
    return rfc3339(int((NOW - seconds_ago) * 10**9))


def job(name: str, created: float, ended: float = 0.0, kind: Any = job_pb2.BATCH) -> job_pb2.JobSummary:
    runtime = job_pb2.RuntimeInfo(
        state=job_pb2.FAILED if ended else job_pb2.RUNNING,
        creationTime=at(created),
        completionTime=at(ended) if ended else "",
    )
    return job_pb2.JobSummary(
        id=peloton_pb2.JobID(value=f"id-{name}"), name=name, instanceCount=2, type=kind, runtime=runtime
    )


JOBS = [job("old", 5000, 3000), job(EVIL, 400), job("shop", 900, kind=job_pb2.SERVICE)]


def index(jobs: list[job_pb2.JobSummary]) -> Any:
    """Answer as the index does: within the range, the newest first."""

    def query(request: job_pb2.QueryRequest) -> job_pb2.QueryResponse:
        spec = request.spec
        ended = spec.HasField("completionTimeRange")
        wanted = spec.completionTimeRange if ended else spec.creationTimeRange
        found = []
        for each in jobs:
            text = each.runtime.completionTime if ended else each.runtime.creationTime
            if not text or (spec.jobStates and each.runtime.state not in spec.jobStates):
                continue
            if not wanted.HasField("max") or seconds_of(text) <= wanted.max.ToNanoseconds() / 10**9:
                found.append((text, each))
        found.sort(key=lambda pair: pair[0], reverse=True)
        return job_pb2.QueryResponse(results=[each for _, each in found[: spec.pagination.limit]])

    return query


def preempted(seconds_ago: float, reason: str = "over by 3") -> monitoring_pb2.Preemption:
    return monitoring_pb2.Preemption(
        time=at(seconds_ago),
        pool="/ads",
        benefits="/ml",
        reason=reason,
        size=2,
        job_id=peloton_pb2.JobID(value="id-old"),
    )


def host(name: str, **of: Any) -> host_pb2.HostInfo:
    return host_pb2.HostInfo(hostname=name, **of)


@pytest.fixture
def found() -> FakeCluster:
    lost = host("gone", state=host_pb2.HOST_STATE_UP)
    lost.lost.since, lost.lost.reason = at(100), "no agent"
    kinds = history_pb2.Change
    draining = history_pb2.HostChange(
        hostname="down",
        change=kinds(time=at(50), kind=kinds.KIND_STATE, before="UP", after="DRAINING"),
    )
    of_shop = workflow_info()
    del of_shop.events[:]
    of_shop.status.creation_time = at(700)
    return FakeCluster(
        {
            web.QUERY_JOBS: index(JOBS),
            web.LIST_JOB_WORKFLOWS: pb.ListJobWorkflowsResponse(workflow_infos=[of_shop]),
            web.GET_PREEMPTIONS: monitoring_pb2.GetPreemptionsResponse(
                preemptions=[preempted(600), preempted(601), preempted(602, "another")]
            ),
            web.GET_JOB_V1ALPHA: pb.GetJobResponse(summary=stateless_pb2.JobSummary(name="old")),
            web.QUERY_HOSTS: host_svc_pb2.QueryHostsResponse(
                host_infos=[
                    lost,
                    host("down", state=host_pb2.HOST_STATE_DRAINING),
                    host("up", state=host_pb2.HOST_STATE_UP),
                ]
            ),
            web.GET_HOST_CACHE: hostmgr_svc_pb2.GetHostCacheResponse(),
            web.LIST_HOST_CHANGES: history_pb2.ListChangesResponse(changes=[draining]),
        }
    )  # fmt: skip


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def told(page: str) -> list[tuple[str, str]]:
    """Subject and what has happened, in order."""
    body = page[page.index("<tbody>") :]
    found = []
    for row in body.split("<tr>")[1:]:
        cells = [
            re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", cell)).strip() for cell in re.split(r"</t[dh]>", row)
        ]
        if len(cells) > 3:
            found.append((cells[1], cells[3]))
    return found


def test_events_of_all_kinds_are_told_in_their_order(client: TestClient) -> None:
    page = client.get("/events").text
    assert "<script>alert" not in page and "<img src=x" not in page
    subjects = [subject for subject, _ in told(page)]
    assert subjects[:2] == ["down", "gone"] and "alert(1)" in subjects[2]
    assert subjects[3:] == ["old", "old", "shop", "shop", "old", "old"]
    what = [text for _, text in told(page)]
    assert what[0] == "was up" and what[1] == "lost: no agent"
    assert what[3] == "preempted in /ads for /ml: over by 3 4 tasks"
    assert what[4] == "preempted in /ads for /ml: another 2 tasks"
    assert what[5].startswith("update from version 2-2-1 to 3-2-1 began")
    assert what[6] == "created, 2 instances" and what[7] == "ended" and what[8] == "created, 2 instances"


@pytest.mark.parametrize("state", [job_pb2.PENDING, job_pb2.INITIALIZED])
def test_updates_of_a_service_that_does_not_run_are_told(state: Any) -> None:
    """All instances of a service fail or wait after a bad update: it is PENDING then."""
    service = job("shop", 900, kind=job_pb2.SERVICE)
    service.runtime.state = state
    flow = workflow_info()
    del flow.events[:]
    flow.status.creation_time = at(700)
    cluster = FakeCluster(
        {
            web.QUERY_JOBS: index([service]),
            web.LIST_JOB_WORKFLOWS: pb.ListJobWorkflowsResponse(workflow_infos=[flow]),
        }
    )
    page = browser(application(cluster)).get("/events?kind=updates").text
    assert [subject for subject, _ in told(page)] == ["shop"]


def test_losses_are_told_once_also_of_hosts_that_are_back(client: TestClient, found: FakeCluster) -> None:
    kinds = history_pb2.Change
    answer = history_pb2.ListChangesResponse()
    for seconds, name, before, after, kind in (
        (60, "back", "LOST", "REGISTERED", kinds.KIND_PRESENCE),
        (90, "back", "REGISTERED", "LOST", kinds.KIND_PRESENCE),
        (100, "gone", "REGISTERED", "LOST", kinds.KIND_PRESENCE),
        (200, "up", "default", "shared", kinds.KIND_POOL),
        (210, "up", "DOWN", "UP", kinds.KIND_GOAL),
    ):
        change = kinds(time=at(seconds), kind=kind, before=before, after=after, reason="no agent")
        answer.changes.add(hostname=name, change=change)
    found.answers[web.LIST_HOST_CHANGES] = answer
    page = client.get("/events?kind=hosts").text
    assert told(page) == [
        ("back", "is back"),
        ("back", "lost: no agent"),
        ("gone", "lost: no agent"),
        ("up", "moved from host pool default to shared"),
    ]


def test_preemptions_and_changes_of_weeks_are_read_page_by_page(
    client: TestClient, found: FakeCluster
) -> None:
    changes = [
        history_pb2.HostChange(
            hostname=f"h{number}",
            change=history_pb2.Change(
                time=at(1000 * number + 200), kind=history_pb2.Change.KIND_POOL, before="a", after="b"
            ),
        )
        for number in range(250)
    ]

    def listed(request: history_pb2.ListChangesRequest) -> history_pb2.ListChangesResponse:
        some = [each for each in changes if seconds_of(each.change.time) < request.before]
        return history_pb2.ListChangesResponse(changes=some[: request.limit])

    found.answers[web.LIST_HOST_CHANGES] = listed
    found.answers[web.QUERY_HOSTS] = host_svc_pb2.QueryHostsResponse()
    seen, url = [], "/events?kind=hosts"
    for _ in range(4):
        page = client.get(url).text
        seen += [subject for subject, _ in told(page)]
        link = re.search(r'<a rel="next" href="([^"]+)"', page)
        if link is None:
            break
        url = link[1].replace("&amp;", "&")
    assert seen == [f"h{number}" for number in range(250)]


def test_kinds_are_chosen(client: TestClient, found: FakeCluster) -> None:
    page = client.get("/events?kind=hosts").text
    assert {subject for subject, _ in told(page)} == {"down", "gone"}
    assert all(called is not web.QUERY_JOBS for called, _, _ in found.asked)
    assert client.get("/events?kind=weather").status_code == 400


def test_earlier_pages_go_on_where_the_one_before_ends(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = index([job(f"j{number}", number * 60 + 30) for number in range(250)])
    seen: list[str] = []
    url = "/events?kind=jobs"
    for _ in range(5):
        page = client.get(url).text
        seen += [subject for subject, _ in told(page)]
        link = re.search(r'<a rel="next" href="([^"]+)"', page)
        if link is None:
            break
        url = link[1].replace("&amp;", "&")
    assert seen == [f"j{number}" for number in range(250)]
    assert "Newest" in page


@pytest.mark.parametrize("before", ["x", "1e99", "-1", "1" * 29, "5000000000"])
def test_a_wrong_time_is_refused(client: TestClient, before: str) -> None:
    assert client.get("/events", params={"before": before}).status_code == 400


def test_what_cannot_be_read_is_said_beside_the_rest(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = Unavailable("jobmgr does not answer")
    page = client.get("/events").text
    assert page.count("jobmgr does not answer") == 1
    assert {subject for subject, _ in told(page)} >= {"down", "gone"}


def test_nothing_has_happened(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = index([])
    assert "Nothing is known." in client.get("/events?kind=jobs").text


def test_strangers_are_led_to_the_login(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = Unauthenticated("who are you")
    answer = client.get("/events", follow_redirects=False)
    assert answer.headers["location"].startswith("/login")

"""Hosts as a tree of places, and what runs in them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls import web
from peloton.errors import InvalidArgument, Unavailable
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.web.views.hosts.rows import HostRow, Usage
from peloton.web.views.topology import pages
from peloton.web.views.topology.pages import keys_of, places

from .fake import FakeCluster, application, browser
from .jobs_cluster import EVIL, JOB


def row(name: str, zone: str, rack: str, state: str = "UP") -> HostRow:
    labels = tuple((key, value) for key, value in (("zone", zone), ("rack", rack)) if value)
    return HostRow(name, state, state, labels=labels, usage={"cpu": Usage(1, 4)})


ROWS = [row("h1", "a", "r1"), row("h2", "a", "r2", "DOWN"), row("h3", "b", "r1"), row("h4", "", "")]


def test_places_are_in_a_tree_with_sums() -> None:
    found = places(ROWS, ("zone", "rack"))
    told = [("/".join(value for _, value in each.where), each.hosts, each.up) for each in found]
    assert told == [
        ("(none)", 1, 1), ("(none)/(none)", 1, 1), ("a", 2, 1), ("a/r1", 1, 1), ("a/r2", 1, 0),
        ("b", 1, 1), ("b/r1", 1, 1),
    ]  # fmt: skip
    zone = found[2]
    assert (zone.used("cpu"), zone.states, zone.depth) == (Usage(2, 8), (("DOWN", 1),), 0)
    assert zone.hosts_url == "/hosts?label=zone%3Da" and not found[0].hosts_url
    assert found[3].url == "/topology?by=zone%2Crack&at=zone%3Da&at=rack%3Dr1#running"


@pytest.mark.parametrize(
    ("query", "known", "keys"),
    [
        ("", ("disk", "rack", "zone"), ("zone", "rack")),
        ("", ("datacenter", "rack", "region", "zone"), ("zone", "rack")),
        ("", ("disk", "os"), ("disk",)),
        ("", (), ()),
        ("by=os, disk,os", (), ("os", "disk")),
    ],
)
def test_the_usual_labels_make_the_tree(query: str, known: tuple[str, ...], keys: tuple[str, ...]) -> None:
    assert keys_of(QueryParams(query), known) == keys


@pytest.mark.parametrize("by", ["a,b,c,d", ","])
def test_too_many_labels_are_refused(by: str) -> None:
    with pytest.raises(InvalidArgument, match="1 to 3 keys"):
        keys_of(QueryParams({"by": by}), ())


def on_hosts(request: hostsvc_pb2.GetHostsByQueryRequest) -> hostsvc_pb2.GetHostsByQueryResponse:
    answer = hostsvc_pb2.GetHostsByQueryResponse()
    for number, name in enumerate(request.hostnames):
        host = answer.hosts.add(hostname=name)
        for instance in range(number + 1):
            host.tasks.add(value=f"{JOB}-{instance}-1")
        host.tasks.add(value="another-framework")
    return answer


@pytest.fixture
def found() -> FakeCluster:
    infos = [
        host_pb2.HostInfo(
            hostname=name,
            state=host_pb2.HOST_STATE_UP,
            labels=[peloton_pb2.Label(key="rack", value=rack)] if rack else [],
        )
        for name, rack in (("h1", "r1"), ("h2", "r1"), ("h3", EVIL))
    ]
    return FakeCluster(
        {
            web.QUERY_HOSTS: host_svc_pb2.QueryHostsResponse(host_infos=infos),
            web.GET_HOST_CACHE: hostmgr_svc_pb2.GetHostCacheResponse(),
            web.GET_HOSTS_BY_QUERY: on_hosts,
            web.GET_JOB_V1ALPHA: stateless_svc_pb2.GetJobResponse(
                summary=stateless_pb2.JobSummary(name=EVIL)
            ),
        }
    )


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def test_what_runs_in_a_place_is_listed_by_job(client: TestClient, found: FakeCluster) -> None:
    page = client.get("/topology", params={"at": "rack=r1"}).text
    assert "What runs in rack r1" in page and "3 tasks of 1 job; 2 tasks of others" in page
    body = re.sub(r"<[^>]+>", " ", page[page.index('id="running"') :]).split()
    assert body[-12:] and "<script>alert" not in page and "<img" not in page
    asked: list[Any] = [request for called, _, request in found.asked if called is web.GET_HOSTS_BY_QUERY]
    assert [sorted(request.hostnames) for request in asked] == [["h1", "h2"]]


def test_without_a_place_no_tasks_are_read(client: TestClient, found: FakeCluster) -> None:
    page = client.get("/topology").text
    assert "3 hosts" in page and "What runs in" not in page
    assert all(called is not web.GET_HOSTS_BY_QUERY for called, _, _ in found.asked)


def test_a_place_with_too_many_hosts_is_not_read(
    client: TestClient, found: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_HOSTS", 1)
    assert "choose a smaller place" in client.get("/topology?at=rack%3Dr1").text
    assert all(called is not web.GET_HOSTS_BY_QUERY for called, _, _ in found.asked)


def test_what_cannot_be_read_is_said_and_the_tree_is_shown(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.GET_HOSTS_BY_QUERY] = Unavailable("hostmgr does not answer")
    page = client.get("/topology?at=rack%3Dr1").text
    assert "hostmgr does not answer" in page and "2" in page


@pytest.mark.parametrize("at", ["zone=a", "rack", "=r1"])
def test_a_place_of_another_tree_is_refused(client: TestClient, at: str) -> None:
    assert client.get("/topology", params={"by": "rack", "at": at}).status_code == 400


def test_hosts_without_labels_say_how_they_get_some(client: TestClient, found: FakeCluster) -> None:
    bare = host_pb2.HostInfo(hostname="h1", state=host_pb2.HOST_STATE_UP)
    found.answers[web.QUERY_HOSTS] = host_svc_pb2.QueryHostsResponse(host_infos=[bare])
    assert "No host has labels" in client.get("/topology").text
    found.shared.forget()
    found.answers[web.QUERY_HOSTS] = host_svc_pb2.QueryHostsResponse()
    assert "No host is registered" in client.get("/topology").text

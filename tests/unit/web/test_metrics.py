"""Requests are counted by the route that takes them, calls of the JSON door by method and code."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
import pytest
from prometheus_client import REGISTRY

from peloton.api.v0.job import job_pb2
from peloton.web.api.failures import CallFailure
from tests.unit.web import jobs_cluster
from tests.unit.web.fake import FakeCluster, application, browser
from tests.unit.web_api.fakes import FakeCaller
from tests.unit.web_api.test_door import GET, LIST, listed

JOB = f"/jobs/{jobs_cluster.JOB}"


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        (JOB, {"route": "/jobs/{job_id}", "method": "GET", "status": "200"}),
        (f"{JOB}/do/update", {"route": "/jobs/{job_id}/do/{action}", "method": "GET", "status": "200"}),
        ("/jobs/a/b/c/d", {"route": "none", "method": "GET", "status": "404"}),
        ("/static/peloton.css", {"route": "/static", "method": "GET", "status": "200"}),
        ("/health", {"route": "/health", "method": "GET", "status": "200"}),
    ],
)
def test_requests_are_counted_by_route(path: str, labels: Mapping[str, str]) -> None:
    before = value("web_requests_total", **labels)
    timed = value("web_request_seconds_count", route=labels["route"])
    browser(application(jobs_cluster.cluster())).get(path)
    assert value("web_requests_total", **labels) == before + 1
    assert value("web_request_seconds_count", route=labels["route"]) == timed + 1


def test_what_is_refused_before_any_route_is_counted_too() -> None:
    labels = {"route": "none", "method": "POST", "status": "403"}
    before = value("web_requests_total", **labels)
    browser(application(jobs_cluster.cluster())).post(f"{JOB}/do/stop", data={})
    assert value("web_requests_total", **labels) == before + 1


def test_unknown_methods_make_no_series_of_their_own() -> None:
    labels = {"route": "/health", "method": "other", "status": "405"}
    before = value("web_requests_total", **labels)
    client = browser(application(FakeCluster()))
    client.get("/login")
    token = client.cookies["peloton_csrf"]
    client.request("BREW", "/health", headers={"x-csrf-token": token})
    assert value("web_requests_total", **labels) == before + 1


@pytest.mark.parametrize(
    ("path", "answer", "labels"),
    [
        (GET, job_pb2.GetResponse(), {"method": GET.removeprefix("/api/"), "code": "OK"}),
        (
            GET,
            CallFailure(grpc.StatusCode.NOT_FOUND, "none"),
            {"method": GET.removeprefix("/api/"), "code": "NOT_FOUND"},
        ),
        ("/api/no.such/Method", None, {"method": "unknown", "code": "UNIMPLEMENTED"}),
    ],
    ids=["answered", "failed", "unknown"],
)
def test_calls_of_the_door_are_counted_by_method_and_code(
    path: str, answer: object, labels: Mapping[str, str]
) -> None:
    before = value("web_door_calls_total", **labels)
    browser(application(FakeCluster(), caller=FakeCaller([answer]))).post(path, json={})
    assert value("web_door_calls_total", **labels) == before + 1


@pytest.mark.parametrize("code", ["OK", "UNAVAILABLE"])
def test_streams_are_counted_with_the_code_with_which_they_end(code: str) -> None:
    labels = {"method": LIST.removeprefix("/api/"), "code": code}
    before = value("web_door_calls_total", **labels)
    answers: list[object] = [listed("a")]
    if code != "OK":
        answers.append(CallFailure(grpc.StatusCode[code], "gone"))
    found = browser(application(FakeCluster(), caller=FakeCaller(answers))).post(LIST, json={})
    assert found.status_code == 200
    assert value("web_door_calls_total", **labels) == before + 1

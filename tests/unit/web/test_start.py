"""The page that tells when a job is likely to start."""

from __future__ import annotations

import re

import pytest

from peloton.calls import web
from peloton.errors import PermissionDenied
from peloton.private.jobmgr.forecast import forecast_pb2
from peloton.web import estimating
from peloton.web.views.jobs import start
from tests import live_scene

from .fake import FakeCluster, application, browser
from .jobs_cluster import JOB, cluster

PATH = f"/jobs/{JOB}/start"


@pytest.fixture
def found() -> FakeCluster:
    made = cluster()
    made.answers[web.LIST_LIVE_JOBS] = live_scene.live_jobs(JOB)
    made.answers[web.QUERY_POOLS] = live_scene.pools()
    made.answers[web.QUERY_HOSTS] = live_scene.hosts()
    made.answers[web.GET_HOST_CACHE] = live_scene.amounts()
    return made


def test_the_estimate_is_made_once_a_minute_in_a_process_of_its_own(
    found: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process lets all others go first; an estimate's age counts from the moment that it was asked for.
    monkeypatch.setattr(estimating, "LONGEST_SECONDS", 240.0)
    monkeypatch.setattr(start, "KEPT_SECONDS", 600.0)
    client = browser(application(found))
    assert f'href="{PATH}"' in client.get(f"/jobs/{JOB}").text
    text = client.get(PATH).text
    # As many as there is CPU for, 20 at most.
    assert "Likely to start in " in text and re.search(r"\b\d+ runs? of the simulator", text), text
    assert "Estimates like this were off by a factor" in text
    asked = len(found.asked)
    del found.answers[web.LIST_LIVE_JOBS]
    assert "Likely to start in " in client.get(PATH).text
    assert web.LIST_LIVE_JOBS.rpc.name not in {name for _, name, _ in found.asked[asked:]}


def test_why_there_is_no_estimate(found: FakeCluster) -> None:
    def denied(request: forecast_pb2.ListLiveJobsRequest) -> forecast_pb2.ListLiveJobsResponse:
        raise PermissionDenied("ann may not call ListLiveJobs")

    found.answers[web.LIST_LIVE_JOBS] = denied
    answer = browser(application(found)).get(PATH)
    assert answer.status_code == 200 and "No estimate of the start: ann may not call" in answer.text


def test_a_job_of_which_nothing_waits(found: FakeCluster) -> None:
    found.answers[web.LIST_LIVE_JOBS] = forecast_pb2.ListLiveJobsResponse(now=live_scene.NOW)
    assert "No instance waits" in browser(application(found)).get(PATH).text


def test_an_estimate_that_takes_too_long(found: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimating, "LONGEST_SECONDS", 0.001)
    assert "the estimate has taken longer than" in browser(application(found)).get(PATH).text

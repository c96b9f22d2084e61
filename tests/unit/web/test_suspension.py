"""Batch jobs that are suspended and resumed on their pages."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.workload import workload_pb2
from peloton.calls import web
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb
from peloton.web.views.jobs.actions import Options, actions, methods_of, preview, simple_call
from peloton.web.views.jobs.job import JobHead, job_head
from tests.unit.web.fake import FakeCluster, application, browser, token
from tests.unit.web.jobs_cluster import JOB, VERSION, cluster, job_info


def head(suspended: bool = False, **more: Any) -> JobHead:
    stats = {"KILLED": 3, "SUCCEEDED": 2} if suspended else {"RUNNING": 2, "PENDING": 1, "SUCCEEDED": 2}
    since = "2026-11-28T02:30:00Z" if suspended else ""
    return job_head(job_info(kind=job_pb2.BATCH, stats=stats, suspendedSince=since, **more), VERSION, {})


def test_a_job_is_suspended_and_resumed() -> None:
    runs, waits = head(), head(suspended=True)
    keys = [{each.key: each.refused for each in actions(each, None)} for each in (runs, waits)]
    assert keys[0]["suspend"] == keys[1]["resume"] == ""
    assert "resume" not in keys[0] and "suspend" not in keys[1]
    assert keys[1]["start"] == keys[1]["restart"] == "it is suspended: resume it"
    told = {each.key: preview(each, runs, None, None, job_info().config) for each in actions(runs, None)}
    assert told["suspend"].effects == [
        "2 instances on hosts will be killed, and what they did is lost",
        "3 instances will wait, in no queue, until the job is resumed",
    ]
    told = {each.key: preview(each, waits, None, None, job_info().config) for each in actions(waits, None)}
    assert told["resume"].effects == ["3 instances will get a new run each"]
    assert methods_of(runs)["suspend"] is web.SUSPEND_JOB and methods_of(waits)["resume"] is web.RESUME_JOB


@pytest.mark.parametrize(
    ("goal", "state", "said"),
    [
        (job_pb2.KILLED, job_pb2.KILLING, "it is being stopped"),
        (job_pb2.SUCCEEDED, job_pb2.SUCCEEDED, "the job has ended: SUCCEEDED"),
    ],
)
def test_one_that_ends_is_not(
    goal: job_pb2.JobState.ValueType, state: job_pb2.JobState.ValueType, said: str
) -> None:
    found = {each.key: each for each in actions(head(goalState=goal, state=state), None)}
    assert found["suspend"].refused == said


def test_a_gang_that_ends_as_one_is_not() -> None:
    info = job_info(kind=job_pb2.BATCH)
    info.config.workload.framework = workload_pb2.FRAMEWORK_TORCH
    info.config.sla.minimumRunningInstances = 2
    found = {each.key: each for each in actions(job_head(info, VERSION, {}), None)}
    assert found["suspend"].refused == "its gang ends as one: stop it"


async def test_the_calls_name_the_job() -> None:
    asked = FakeCluster({web.SUSPEND_JOB: pb.SuspendJobResponse(), web.RESUME_JOB: pb.ResumeJobResponse()})
    await simple_call("suspend", head(), VERSION, Options())(asked.calls())
    await simple_call("resume", head(suspended=True), VERSION, Options())(asked.calls())
    assert [(called, request.job_id.value) for called, _, request in asked.asked] == [
        (web.SUSPEND_JOB, JOB),
        (web.RESUME_JOB, JOB),
    ]


def test_the_page_asks_and_suspends() -> None:
    found = cluster(job_info(kind=job_pb2.BATCH))
    found.answers[web.SUSPEND_JOB] = pb.SuspendJobResponse()
    client = browser(application(found))
    assert "/do/suspend" in client.get(f"/jobs/{JOB}").text
    assert "in no queue" in client.get(f"/jobs/{JOB}/do/suspend").text
    form = {"csrf": token(client), "version": VERSION}
    answer = client.post(f"/jobs/{JOB}/do/suspend", data=form, follow_redirects=False)
    assert answer.status_code == 303
    assert [request.job_id.value for called, _, request in found.asked if called is web.SUSPEND_JOB] == [JOB]

"""Jobs with a schedule: the page of all, and a job's own with its actions."""

from __future__ import annotations

import re

import pytest

from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.calls import web
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb
from peloton.web.views.jobs.actions import Options, actions, methods_of, preview, simple_call
from peloton.web.views.jobs.job import JobHead, job_head

from .fake import FakeCluster, application, browser
from .jobs_cluster import JOB, job_info

EVIL = "<img src=x>"
NEXT, LAST = "2026-11-28T02:30:00Z", "2026-11-27T02:30:00Z"


def status(paused: bool = False) -> scheduling_pb2.ScheduleStatus:
    found = scheduling_pb2.ScheduleStatus(last_time=LAST, last_job_id="run-1", kept_runs=7)
    if paused:
        found.paused_since = LAST
    else:
        found.next_times.append(NEXT)
    return found


def schedule(
    name: str, paused: bool = False, state: job_pb2.JobState.ValueType = job_pb2.UNKNOWN
) -> pb.Schedule:
    return pb.Schedule(
        job_id=peloton_pb2.JobID(value=f"job-{name[:1]}"),
        name=name,
        pool="/team",
        schedule=scheduling_pb2.JobSchedule(cron="30 2 * * *", time_zone="Europe/Berlin"),
        status=status(paused),
        last_state=state,
    )


def page(*found: pb.Schedule, total: int = 0) -> str:
    answer = pb.ListSchedulesResponse(schedules=found, total=total or len(found))
    cluster = FakeCluster({web.LIST_SCHEDULES: lambda request: answer})
    shown = browser(application(cluster)).get("/schedules")
    assert shown.status_code == 200, shown.text
    return re.sub(r"\s+", " ", shown.text)


def test_the_page_of_schedules() -> None:
    text = page(schedule("nightly", state=job_pb2.SUCCEEDED), schedule(EVIL, paused=True), total=9)
    assert "9 jobs with a schedule; the 2 that run next are shown" in text
    assert EVIL not in text
    first, second = re.findall(r"<tr><th scope=\"row\".*?</tr>", text)
    assert 'href="/jobs/job-n"' in first
    assert "30 2 * * *" in first
    assert "Europe/Berlin" in first
    assert 'datetime="2026-11-28T02:30:00' in first
    assert 'href="/jobs/run-1"' in first
    assert "labels=peloton.schedule%3Djob-n" in first
    assert "paused since" in second
    assert "deleted" in second


def test_no_schedules() -> None:
    assert "No job has a schedule" in page()


def head(paused: bool, goal: job_pb2.JobState.ValueType = job_pb2.SUCCEEDED) -> JobHead:
    info = job_info(
        kind=job_pb2.BATCH, stats={}, state=job_pb2.INITIALIZED, goalState=goal, schedule=status(paused)
    )
    info.config.schedule.cron = "30 2 * * *"
    return job_head(info, "1-1-1", {})


@pytest.mark.parametrize(("paused", "refused"), [(False, "it is not paused"), (True, "it is paused already")])
def test_a_schedule_is_paused_and_resumed(paused: bool, refused: str) -> None:
    found = {each.key: each for each in actions(head(paused), None)}
    possible, other = ("resume", "pause") if paused else ("pause", "resume")
    assert found[possible].refused == ""
    assert found[other].refused == refused
    shown = preview(found[possible], head(paused), None, None, job_info().config)
    assert shown.effects
    assert methods_of(head(paused))["pause"] is web.PAUSE_SCHEDULE


def test_one_that_is_stopped_is_not() -> None:
    found = {each.key: each for each in actions(head(False, job_pb2.KILLED), None)}
    assert found["pause"].refused == found["resume"].refused == "it is being stopped"


async def test_the_call_of_an_action_names_the_job() -> None:
    cluster = FakeCluster({web.PAUSE_SCHEDULE: pb.PauseScheduleResponse()})
    await simple_call("pause", head(False), "1-1-1", Options())(cluster.calls())
    [(called, _, request)] = cluster.asked
    assert (called, request.job_id.value) == (web.PAUSE_SCHEDULE, JOB)


def test_a_jobs_page_has_its_next_runs() -> None:
    found = head(False)
    assert found.schedule is not None
    assert (found.schedule.cron, found.schedule.time_zone, found.schedule.kept) == ("30 2 * * *", "UTC", 7)
    assert len(found.schedule.next) == 1

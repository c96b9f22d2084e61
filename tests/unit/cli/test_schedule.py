"""`peloton schedule`: what is asked and printed."""

from __future__ import annotations

from typing import Any

from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
NEXT, LAST = "2026-11-28T02:30:00Z", "2026-11-27T02:30:00Z"


def schedule(name: str, **status: Any) -> pb.Schedule:
    return pb.Schedule(
        job_id=peloton_pb2.JobID(value=JOB),
        name=name,
        pool="/team",
        schedule=scheduling_pb2.JobSchedule(cron="30 2 * * *", time_zone="Europe/Berlin"),
        status=scheduling_pb2.ScheduleStatus(**status),
    )


def test_list(run: Run, daemons: FakeDaemons) -> None:
    nightly = schedule("nightly", next_times=[NEXT], last_time=LAST, kept_runs=3)
    nightly.last_state = job_pb2.SUCCEEDED
    found = [nightly, schedule("paused", paused_since=LAST), schedule("new", next_times=[NEXT])]
    daemons.answers["ListSchedules"] = pb.ListSchedulesResponse(schedules=found, total=4)
    printed = run("schedule", "list", "--pool", "/team", "-n", "3")
    head, first, second, third = printed.out.splitlines()
    assert head.split("  ")[0] == "JOB"
    assert first.split() == [
        *(JOB, "nightly", "/team", "30", "2", "*", "*", "*", "(Europe/Berlin)", NEXT, LAST, "SUCCEEDED", "3")
    ]
    assert f"paused since {LAST}" in second
    assert third.split()[-2:] == ["none", "0"]
    assert "1 more are not shown" not in printed.err
    assert "one more is not shown" in printed.err
    [asked] = daemons.requests("ListSchedules")
    assert (asked.pool, asked.limit) == ("/team", 3)


def test_pause_and_resume(run: Run, daemons: FakeDaemons) -> None:
    paused = scheduling_pb2.ScheduleStatus(paused_since=LAST, running_job_id="run-1")
    daemons.answers["PauseSchedule"] = pb.PauseScheduleResponse(status=paused)
    assert run("schedule", "pause", JOB).out == (
        f"The schedule of job {JOB} is paused; the run run-1 goes on\n"
    )
    resumed = scheduling_pb2.ScheduleStatus(next_times=[NEXT])
    daemons.answers["ResumeSchedule"] = pb.ResumeScheduleResponse(status=resumed)
    assert run("schedule", "resume", JOB).out == f"The schedule of job {JOB} goes on: next run at {NEXT}\n"
    assert daemons.requests("ResumeSchedule")[0].job_id.value == JOB


def test_runs(run: Run, daemons: FakeDaemons) -> None:
    made = job_pb2.JobSummary(id=peloton_pb2.JobID(value="run-1"), name="nightly-20261127T0230Z")
    daemons.answers["Query"] = job_pb2.QueryResponse(results=[made])
    assert "nightly-20261127T0230Z" in run("schedule", "runs", JOB).out
    [label] = daemons.requests("Query")[0].spec.labels
    assert (label.key, label.value) == ("peloton.schedule", JOB)

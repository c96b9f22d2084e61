"""Stopping and deleting what has labels, with a preview."""

from __future__ import annotations

import io
import json

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.errors import errors_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.cli import waiting

from .conftest import Run
from .fakes import FakeDaemons

JOB_ID = "5b8f3e8e-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def found(daemons: FakeDaemons) -> None:
    def job(name: str, kind: job_pb2.JobType.ValueType) -> job_pb2.JobSummary:
        runtime = job_pb2.RuntimeInfo(state=job_pb2.RUNNING)
        return job_pb2.JobSummary(
            id=peloton_pb2.JobID(value=name), name=f"the {name}", type=kind, instanceCount=7, runtime=runtime
        )

    jobs = [job("job-a", job_pb2.SERVICE), job("job-b", job_pb2.BATCH), job("job-c", job_pb2.DAEMON)]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=jobs)
    info = stateless_svc_pb2.GetJobResponse()
    info.summary.status.version.value = "3-1-1"
    daemons.answers["GetJob"] = info


def test_ended_jobs_with_labels_are_deleted(run: Run, daemons: FakeDaemons) -> None:
    missing = job_pb2.DeleteResponse.Error(notFound=errors_pb2.JobNotFound(message="job not found"))
    daemons.answers["Delete"] = [
        job_pb2.DeleteResponse(),
        job_pb2.DeleteResponse(error=missing),
        job_pb2.DeleteResponse(),
    ]
    outcome = run("job", "delete", "-l", "team=data", "-f", "-n", "5")
    assert outcome == (1, "Job job-a deleted\nJob job-c deleted\n", "peloton: job job-b: job not found\n")
    spec = daemons.requests("Query")[0].spec
    states = [job_pb2.JobState.Name(state) for state in spec.jobStates]
    assert (states, spec.labels[0].key, spec.pagination.limit) == (
        ["SUCCEEDED", "FAILED", "KILLED"],
        "team",
        5,
    )
    daemons.answers["Delete"] = job_pb2.DeleteResponse()
    assert run("job", "delete", "--owner", "me", "-f", "-o", "name").out == "job-a\njob-b\njob-c\n"


@pytest.mark.parametrize(
    ("command", "flags", "question"),
    [
        (("job", "stop"), (), "Stop these 3 jobs?"),
        (("job", "delete"), (), "Delete these 3 jobs?"),
        (("job", "stateless", "stop"), (), "Stop these 2 jobs?"),
        (("job", "stateless", "delete"), ("--force",), "Delete these 2 jobs?"),
    ],
)
def test_nothing_is_done_without_a_yes(
    run: Run,
    daemons: FakeDaemons,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    flags: tuple[str, ...],
    question: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    arguments = flags if "stateless" in command else ()
    outcome = run(*command, "-l", "team=data", *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert question in outcome.err and "job-a  the job-a  SERVICE  RUNNING  7" in outcome.err
    assert {method for method, _, _ in daemons.asked} == {"Query"}


def test_services_with_labels_are_stopped_at_their_present_version(run: Run, daemons: FakeDaemons) -> None:
    stale = (grpc.StatusCode.ABORTED, "job changed")
    stopped = stateless_svc_pb2.StopJobResponse()
    stopped.version.value = "3-2-1"
    daemons.answers["StopJob"] = [stopped, stale]
    outcome = run("job", "stateless", "stop", "--owner", "me", "-y")
    assert outcome.code == 1 and outcome.out == "Job job-a is being stopped, entity version 3-2-1\n"
    assert "job job-c" in outcome.err and "job changed" in outcome.err
    assert [request.version.value for request in daemons.requests("StopJob")] == ["3-1-1", "3-1-1"]
    daemons.answers["DeleteJob"] = stateless_svc_pb2.DeleteJobResponse()
    outcome = run("job", "stateless", "delete", "-l", "team=data", "-y", "-f", "-j")
    assert json.loads(outcome.out) == [{"jobId": "job-a"}, {"jobId": "job-c"}]
    assert all(request.force for request in daemons.requests("DeleteJob"))


def test_what_takes_long_is_counted(
    run: Run, daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    daemons.answers["Delete"] = job_pb2.DeleteResponse()
    monkeypatch.setattr(waiting, "PATIENCE", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    outcome = run("job", "delete", "-l", "team=data", "-f")
    assert outcome.code == 0
    assert "peloton: deleting jobs: 3 of 3" in outcome.err and outcome.err.endswith("\r\x1b[K")
    monkeypatch.setattr(waiting, "PATIENCE", 60)
    assert run("job", "delete", "-l", "team=data", "-f").err == ""


@pytest.mark.parametrize("command", [("stop",), ("delete",), ("stateless", "stop"), ("stateless", "delete")])
def test_nothing_found_and_wrong_calls(run: Run, daemons: FakeDaemons, command: tuple[str, ...]) -> None:
    assert "give either a job's id" in run("job", *command).err
    assert run("job", *command, JOB_ID, "--owner", "me").code == 2
    assert "is not labels" in run("job", *command, "-l", "team").err
    daemons.answers["Query"] = job_pb2.QueryResponse()
    outcome = run("job", *command, "-l", "team=data")
    assert outcome.code == 0 and "found" in outcome.out

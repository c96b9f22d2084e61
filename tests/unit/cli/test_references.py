"""Jobs and instances by name, by the beginning of an id, and by id."""

from __future__ import annotations

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.errors import errors_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2

from .conftest import Run
from .fakes import FakeDaemons

ONE, OTHER, THIRD = (f"5b8f3e8e-0000-4000-8000-00000000000{number}" for number in range(3))


def job(job_id: str, name: str) -> job_pb2.JobSummary:
    runtime = job_pb2.RuntimeInfo(state=job_pb2.RUNNING, creationTime="2026-01-31T12:00:00.5Z")
    return job_pb2.JobSummary(id=peloton_pb2.JobID(value=job_id), name=name, runtime=runtime)


@pytest.fixture
def known(daemons: FakeDaemons) -> FakeDaemons:
    """Answers every query with all jobs, as a server does that does not know of references."""
    jobs = [job(ONE, "web"), job(OTHER, "web-2"), job(THIRD, "5b8f")]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=jobs)
    daemons.answers["Get"] = job_pb2.GetResponse()
    return daemons


def got(daemons: FakeDaemons) -> list[str]:
    return [request.id.value for request in daemons.requests("Get")]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("web", ONE),
        ("web-2", OTHER),
        ("/team/batch/web", ONE),
        ("/web", ONE),
        (ONE, ONE),
        (ONE.upper()[:36], ""),
    ],
)
def test_a_job_is_named(run: Run, known: FakeDaemons, given: str, expected: str) -> None:
    assert run("job", "get", given).code == 0
    assert got(known) == [expected or given]


def test_what_is_asked_for(run: Run, known: FakeDaemons) -> None:
    run("job", "get", "/team/batch/web")
    (asked,) = known.requests("Query")
    assert (asked.spec.reference, asked.spec.respool.value, asked.summaryOnly) == ("web", "/team/batch", True)
    run("job", "get", "/web")
    assert known.requests("Query")[1].spec.respool.value == "/"
    run("job", "get", ONE)
    assert len(known.requests("Query")) == 2


def test_the_beginning_of_an_id(run: Run, known: FakeDaemons) -> None:
    known.answers["Query"] = job_pb2.QueryResponse(results=[job(ONE, "web"), job("aaaa" + ONE[4:], "web")])
    assert run("job", "get", "5B8F").code == 0 and got(known) == [ONE]
    assert run("job", "get", "5b8").err == (
        "peloton: job not found: '5b8': no job has this name; give the whole name, an id, "
        "or its first 4 characters or more\n"
    )
    assert run("job", "get", "5b8f3e9").err == (
        "peloton: job not found: '5b8f3e9': no job has this name, or an id that begins so; "
        "`peloton job query` lists jobs\n"
    )
    missing = errors_pb2.InvalidRespool(
        message="spec.respool: '/b' is not the path of a resource pool that exists"
    )
    known.answers["Query"] = job_pb2.QueryResponse(error=job_pb2.QueryResponse.Error(invalidRespool=missing))
    assert run("job", "get", "/b/web").err == "peloton: job not found: '/b/web': there is no pool '/b'\n"


def test_another_pool(run: Run, known: FakeDaemons) -> None:
    assert "no job in the pool /team has this name" in run("job", "get", "/team/api").err


def test_several_are_listed_and_none_is_taken(run: Run, known: FakeDaemons) -> None:
    outcome = run("job", "stop", "5b8f")
    assert outcome.code == 1 and not known.requests("Stop")
    lines = outcome.err.splitlines()
    assert lines[-1] == "peloton: '5b8f' may be 3 jobs, newest first above: give the id of one"
    assert [line.split()[:3] for line in lines[:-1]] == [
        [ONE, "web", "RUNNING"],
        [OTHER, "web-2", "RUNNING"],
        [THIRD, "5b8f", "RUNNING"],
    ]


def test_pods(run: Run, known: FakeDaemons) -> None:
    known.answers["GetPod"] = pod_svc_pb2.GetPodResponse()
    for given, expected in (("web-2", f"{ONE}-2"), ("web-2-7", f"{OTHER}-7"), (f"{ONE}-3", f"{ONE}-3")):
        run("pod", "get-v1alpha" if "get-v1alpha" in run("pod", "-h").out else "get", given)
        assert known.requests("GetPod")[-1].pod_name.value == expected


def test_commands_that_take_jobs_or_pods(run: Run, known: FakeDaemons) -> None:
    known.answers["Get"] = (grpc.StatusCode.NOT_FOUND, "gone meanwhile")
    for given, expected in (("web-2-7", OTHER), ("web-2", OTHER), ("web-1", ONE)):
        run("logs", given)
        assert got(known)[-1] == expected


def test_wrong_arguments_are_told_without_a_call(run: Run, known: FakeDaemons) -> None:
    assert run("task", "logs", "web", "-1").code == 2
    assert not known.asked

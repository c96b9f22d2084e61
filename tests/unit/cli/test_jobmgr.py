"""`peloton jobmgr`: throttled pods, jobs in memory, availability of instances."""

from __future__ import annotations

import json

import grpc
import pytest

from peloton.api.v1alpha import peloton_pb2
from peloton.private.jobmgrsvc import jobmgrsvc_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons

JOB = "a0000000-0000-4000-8000-00000000000a"
COMMANDS = [
    (("throttled-pods",), "GetThrottledPods"),
    (("query-job-cache",), "QueryJobCache"),
    (("instance-availability", JOB), "GetInstanceAvailabilityInfoForJob"),
]


def test_throttled_pods(run: Run, daemons: FakeDaemons) -> None:
    names = [peloton_pb2.PodName(value=f"{JOB}-{i}") for i in (3, 10)]
    daemons.answers["GetThrottledPods"] = pb.GetThrottledPodsResponse(throttled_pods=names)
    for _ in range(2):
        assert run("jobmgr", "throttled-pods") == (0, f"Pod\n{JOB}-3\n{JOB}-10\n", "")
    shown = json.loads(run("-j", "jobmgr", "throttled-pods").out)
    assert [pod["value"] for pod in shown["throttled_pods"]] == [f"{JOB}-3", f"{JOB}-10"]
    daemons.answers["GetThrottledPods"] = pb.GetThrottledPodsResponse()
    assert run("jobmgr", "throttled-pods").out == "Pod\n"


def test_query_job_cache(run: Run, daemons: FakeDaemons) -> None:
    answer = pb.QueryJobCacheResponse()
    for name, last in (("web", "b"), ("api", "c")):
        answer.result.add(name=name).job_id.value = JOB[:-1] + last
    daemons.answers["QueryJobCache"] = answer
    outcome = run("jobmgr", "query-job-cache", "--name", "w*", "-l", "team=a,tier=1")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines == [["Job", "ID", "Name"], [JOB[:-1] + "c", "api"], [JOB[:-1] + "b", "web"]]
    assert run("jobmgr", "query-job-cache").code == 0
    given, bare = daemons.requests("QueryJobCache")
    assert given.spec.name == "w*"
    assert [(label.key, label.value) for label in given.spec.labels] == [("team", "a"), ("tier", "1")]
    assert not bare.spec.name and not bare.spec.labels


def test_instance_availability(run: Run, daemons: FakeDaemons) -> None:
    classes = {10: "KILLED", 2: "AVAILABLE"}
    daemons.answers["GetInstanceAvailabilityInfoForJob"] = pb.GetInstanceAvailabilityInfoForJobResponse(
        instance_availability_map=classes
    )
    outcome = run("jobmgr", "instance-availability", JOB, "-i", "2, 10")
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines == [["Instance", "Availability"], ["2", "AVAILABLE"], ["10", "KILLED"]]
    assert run("jobmgr", "instance-availability", JOB).code == 0
    some, every = daemons.requests("GetInstanceAvailabilityInfoForJob")
    assert (some.job_id.value, list(some.instances), list(every.instances)) == (JOB, [2, 10], [])


@pytest.mark.parametrize("wrong", ["x", "1:3", "-1", "1,b", "²", str(2**31)])
def test_what_is_no_instance_is_a_usage_error(run: Run, daemons: FakeDaemons, wrong: str) -> None:
    outcome = run("jobmgr", "instance-availability", JOB, "-i", wrong)
    assert outcome.code == 2 and "is not the id of an instance" in outcome.err
    assert not daemons.asked


def test_a_job_is_needed(run: Run, daemons: FakeDaemons) -> None:
    assert run("jobmgr", "instance-availability").code == 2
    assert not daemons.asked


@pytest.mark.parametrize(("command", "method"), COMMANDS)
@pytest.mark.parametrize(
    ("code", "text"),
    [(grpc.StatusCode.NOT_FOUND, "job not found"), (grpc.StatusCode.UNAVAILABLE, "no jobmgr leads")],
)
def test_a_call_that_fails(
    run: Run,
    daemons: FakeDaemons,
    command: tuple[str, ...],
    method: str,
    code: grpc.StatusCode,
    text: str,
) -> None:
    daemons.answers[method] = (code, text)
    outcome = run("jobmgr", *command)
    expected = 3 if code is grpc.StatusCode.UNAVAILABLE else 1
    assert (outcome.code, outcome.out) == (expected, "") and text in outcome.err

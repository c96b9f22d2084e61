"""`peloton pod`, against a fake PodService."""

from __future__ import annotations

import json

import grpc
import pytest

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pb

from .conftest import Run
from .fakes import FakeAgent, FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
POD = f"{JOB}-3"
NOT_FOUND = (grpc.StatusCode.NOT_FOUND, f"pod {POD} not found: the job has 3 instances")


def status(run: int = 2) -> pod_pb2.PodStatus:
    return pod_pb2.PodStatus(
        state=pod_pb2.POD_STATE_RUNNING, pod_id=peloton_pb2.PodID(value=f"{POD}-{run}"), host="h1"
    )


def test_get_shows_earlier_runs_on_request(run: Run, daemons: FakeDaemons) -> None:
    answer = pb.GetPodResponse(current=pod_pb2.PodInfo(status=status(2)))
    answer.previous.add(status=status(1))
    daemons.answers["GetPod"] = answer
    outcome = run("pod", "get", POD, "--statusonly", "--limit", "4")
    assert outcome.code == 0 and f"value: {POD}-1\n" in outcome.out
    [request] = daemons.requests("GetPod")
    assert (request.pod_name.value, request.status_only, request.limit) == (POD, True, 4)


def test_query(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["QueryPods"] = stateless_svc_pb2.QueryPodsResponse(
        pods=[pod_pb2.PodInfo(status=status())]
    )
    outcome = run(
        *("pod", "query", JOB, "-s", "running,POD_STATE_KILLED", "--names", POD, "--hosts", "h1,h2"),
        *("-n", "5", "-o", "1", "-p", "host", "-a", "DESC"),
    )
    assert outcome.out.splitlines()[1].split() == ["3", POD, "RUNNING", "h1"]
    [request] = daemons.requests("QueryPods")
    assert request.summary_only
    spec = request.spec
    assert spec.pod_states == [pod_pb2.POD_STATE_RUNNING, pod_pb2.POD_STATE_KILLED]
    assert ([name.value for name in spec.names], list(spec.hosts)) == ([POD], ["h1", "h2"])
    page = spec.pagination
    assert (page.limit, page.offset, page.order_by[0].property.value, page.order_by[0].order) == (
        5,
        1,
        "host",
        2,
    )
    run("pod", "query", JOB, "-j")
    assert not daemons.requests("QueryPods")[1].summary_only


@pytest.mark.parametrize(
    ("command", "method", "done"),
    [
        ("start", "StartPod", "is being started"),
        ("stop", "StopPod", "is being stopped"),
        ("restart", "RestartPod", "is being restarted"),
        ("refresh", "RefreshPod", "refreshed"),
    ],
)
def test_control(run: Run, daemons: FakeDaemons, command: str, method: str, done: str) -> None:
    daemons.answers[method] = getattr(pb, f"{method}Response")()
    assert run("pod", command, POD) == (0, f"Pod {POD} {done}\n", "")
    assert daemons.requests(method)[0].pod_name.value == POD
    daemons.answers[method] = NOT_FOUND
    assert run("pod", command, POD) == (1, "", f"peloton: {NOT_FOUND[1]} (NOT_FOUND)\n")


def test_restart_within_the_sla(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["RestartPod"] = pb.RestartPodResponse()
    run("pod", "restart", POD)
    run("pod", "restart", POD, "--check-sla")
    assert [request.check_sla for request in daemons.requests("RestartPod")] == [False, True]


def test_events_of_a_run(run: Run, daemons: FakeDaemons) -> None:
    event = pod_pb2.PodEvent(
        pod_id=peloton_pb2.PodID(value=f"{POD}-2"),
        actual_state="POD_STATE_RUNNING",
        desired_state="POD_STATE_KILLED",
        timestamp="2026-01-31T12:00:00.5Z",
        version=peloton_pb2.EntityVersion(value="4-0-0"),
        hostname="h1",
        message="m",
        healthy="HEALTH_STATE_HEALTHY",
    )
    daemons.answers["GetPodEvents"] = pb.GetPodEventsResponse(events=[event])
    row = run("pod", "events-v1alpha", POD, "-p", "2").out.splitlines()[1]
    assert row.split() == ["2", "2026-01-31T12:00:00Z", "RUNNING", "KILLED", "HEALTHY", "4-0-0", "h1", "m"]
    run("pod", "events-v1alpha", POD)
    assert [one.pod_id.value for one in daemons.requests("GetPodEvents")] == [f"{POD}-2", ""]


def test_delete_events(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["DeletePodEvents"] = pb.DeletePodEventsResponse()
    outcome = run("pod", "delete-events", POD, "2")
    assert outcome == (0, f"Events of pod {POD} deleted up to {POD}-2\n", "")
    run("pod", "delete-events", POD, f"{POD}-1")
    assert [one.pod_id.value for one in daemons.requests("DeletePodEvents")] == [f"{POD}-2", f"{POD}-1"]


def test_cache(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["GetPodCache"] = pb.GetPodCacheResponse(status=pod_pb2.PodStatus(host="h1"))
    assert run("pod", "cache", POD).out == "status:\n  host: h1\n"


def test_logs(run: Run, daemons: FakeDaemons, agent: FakeAgent, agent_address: tuple[str, int]) -> None:
    agent.files = {"/run/stdout": b"out\n", "/run/stderr": b"err\n"}
    host, port = agent_address
    daemons.answers["BrowsePodSandbox"] = pb.BrowsePodSandboxResponse(
        hostname=host, port=str(port), paths=list(agent.files)
    )
    assert run("pod", "logs", POD) == (0, "out\n", "")
    assert run("pod", "logs", POD, "-f", "stderr", "-p", "1").out == "err\n"
    assert [one.pod_id.value for one in daemons.requests("BrowsePodSandbox")] == ["", f"{POD}-1"]
    assert json.loads(run("pod", "logs", POD, "-j").out)["text"] == "out\n"
    outcome = run("pod", "logs", POD, "-f", "core")
    assert outcome == (1, "", "peloton: no file 'core' in the sandbox; there: stderr, stdout\n")
    daemons.answers["BrowsePodSandbox"] = (grpc.StatusCode.NOT_FOUND, "run 7 has not been launched")
    assert run("pod", "logs", POD, "-p", "7").err == "peloton: run 7 has not been launched (NOT_FOUND)\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pod", "gte", POD), "Did you mean 'get'?"),
        (("pod", "get", POD, "--limit", "-1"), "'-1' is not a whole number from 0 to 4294967295"),
        (("pod", "query", JOB, "-s", "RUNING"), "did you mean RUNNING?"),
        (("pod", "delete-events", POD), "Missing argument 'PODID'"),
    ],
)
def test_wrong_arguments_exit_with_2(
    run: Run, daemons: FakeDaemons, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert not daemons.asked

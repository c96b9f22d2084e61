"""What Mesos or an operator kills without being asked runs again, though its job has no retries."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2

from .conftest import Harness, wait_for


def master(harness: Harness) -> str:
    (part,) = [part for part in harness.cluster.components() if part.kind == "mesos-master"]
    return f"http://{part.addresses['http']}"


def operator(harness: Harness, call: dict[str, object]) -> None:
    request = urllib.request.Request(
        f"{master(harness)}/api/v1", json.dumps(call).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def tear_down(harness: Harness) -> None:
    with urllib.request.urlopen(f"{master(harness)}/state", timeout=60) as answer:
        (framework,) = json.load(answer)["frameworks"]
    form = urllib.parse.urlencode({"frameworkId": framework["id"]}).encode()
    with urllib.request.urlopen(f"{master(harness)}/teardown", form, timeout=60) as answer:
        assert answer.status == 200


def agent_id(harness: Harness, hostname: str) -> dict[str, str]:
    request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=hostname)
    (agent,) = harness.client.hostmgr_svc.GetMesosAgentInfo(request, timeout=30).agents
    return {"value": agent.agent_info.id.value}


def evicted(harness: Harness, go: Path, evict: Callable[[str], None]) -> list[task_pb2.PodEvent]:
    """A job without retries of two tasks whose hosts are evicted once they run, and that end well after that;
    the history of the first run of the first."""
    config = harness.config(f"until [ -e {go} ]; do sleep 0.1; done", 2)
    config.defaultConfig.restartPolicy.maxFailures = 0
    job = harness.create(config)
    for host in {harness.running(job, instance).host for instance in (0, 1)}:
        evict(host)
    wait_for(lambda: all(_again(harness, job, instance) for instance in (0, 1)), 60)
    go.touch()
    assert harness.ended(job).state == job_pb2.SUCCEEDED
    tasks = harness.tasks(job)
    assert [tasks[instance].runtime.failureCount for instance in (0, 1)] == [0, 0]
    request = task_pb2.GetPodEventsRequest(
        jobId=peloton_pb2.JobID(value=job), instanceId=0, runId=f"{job}-0-1"
    )
    return list(harness.client.task_svc.GetPodEvents(request, timeout=30).result)


def _again(harness: Harness, job: str, instance: int) -> bool:
    runtime = harness.tasks(job)[instance].runtime
    return runtime.state == task_pb2.RUNNING and runtime.mesosTaskId.value == f"{job}-{instance}-2"


def test_agents_that_are_drained(harness: Harness, tmp_path: Path) -> None:
    drained: list[dict[str, str]] = []

    def drain(host: str) -> None:
        drained.append(agent_id(harness, host))
        operator(harness, {"type": "DRAIN_AGENT", "drain_agent": {"agent_id": drained[-1]}})

    last = evicted(harness, tmp_path / "go", drain)[0]
    assert (last.actualState, last.reason) == ("KILLED", "AGENT_DRAINING")
    assert last.message.startswith("evicted, not counted as a failure")
    for agent in drained:
        operator(harness, {"type": "REACTIVATE_AGENT", "reactivate_agent": {"agent_id": agent}})


def test_a_framework_that_is_torn_down(harness: Harness, tmp_path: Path) -> None:
    done: list[str] = []

    def once(host: str) -> None:
        if not done:
            tear_down(harness)
        done.append(host)

    last = evicted(harness, tmp_path / "go", once)[0]
    assert (last.actualState, last.reason) == ("KILLED", "FRAMEWORK_REMOVED")


def test_an_agent_that_is_marked_gone(harness: Harness, tmp_path: Path) -> None:
    def gone(host: str) -> None:
        operator(
            harness, {"type": "MARK_AGENT_GONE", "mark_agent_gone": {"agent_id": agent_id(harness, host)}}
        )

    last = evicted(harness, tmp_path / "go", gone)[0]
    assert (last.actualState, last.reason) == ("LOST", "AGENT_REMOVED_BY_OPERATOR")

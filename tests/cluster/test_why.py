"""`peloton job why` and `peloton task why` against real daemons."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, wait_for

SECONDS = 60.0
Why = Callable[..., dict[str, Any]]


@pytest.fixture
def why(harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Why:
    """`why("task", job_id, "0")`: what the command prints with -j; it must print text without it too."""
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def ask(kind: str, *arguments: str) -> dict[str, Any]:
        capfd.readouterr()
        assert main([kind, "why", *arguments]) == 0
        text = capfd.readouterr().out
        assert main([kind, "why", *arguments, "-j"]) == 0
        answer: dict[str, Any] = json.loads(capfd.readouterr().out)
        answer["text"] = text
        return answer

    return ask


def groups(answer: dict[str, Any]) -> dict[str, int]:
    """Counts by state."""
    counts: dict[str, int] = {}
    for group in answer["groups"]:
        counts[group["state"]] = counts.get(group["state"], 0) + group["count"]
    return counts


def test_explain_a_task_that_fits_on_no_host(harness: Harness, why: Why) -> None:
    config = harness.config("true")
    config.defaultConfig.resource.memLimitMb = 5_000
    config.defaultConfig.resource.gpuLimit = 0
    config.defaultConfig.constraint.type = task_pb2.Constraint.LABEL_CONSTRAINT
    label = config.defaultConfig.constraint.labelConstraint
    label.kind = task_pb2.LabelConstraint.HOST
    label.condition = task_pb2.LabelConstraint.CONDITION_EQUAL
    label.label.key, label.label.value, label.requirement = "rack", "nowhere", 1
    job_id = harness.create(config)
    told: dict[str, Any] = {}

    def tried() -> bool:
        told.update(why("task", job_id, "0"))
        return bool(told["resmgr"] and told["resmgr"].get("tries")) and "no host fits" in told["text"]

    wait_for(tried, SECONDS, lambda: str(told))
    tries = told["resmgr"]["tries"]
    assert sum(tries["hosts"].values()) >= 1, tries
    assert sum(groups(why("job", job_id)).values()) == 1


def test_explain_a_task_over_the_reservation_and_the_tasks_behind_it(harness: Harness, why: Why) -> None:
    config = harness.config("sleep 600", 3)
    config.sla.preemptible = False
    config.defaultConfig.resource.cpuLimit = 0.5
    config.respoolID.value = small_pool(harness, "unreserved")
    job_id = harness.create(config)
    told: dict[str, Any] = {}

    def refused() -> bool:
        told.update(why("task", job_id, "0"))
        check = told["resmgr"] and told["resmgr"].get("check")
        return bool(check) and told["state"] == "PENDING" and check["text"] in told["text"]

    wait_for(refused, SECONDS, lambda: str(told))
    check = told["resmgr"]["check"]
    assert (check["kind"], check["gang"], check["bound"]) == ("cpu", 0.5, 0), check
    job = why("job", job_id)
    assert groups(job) == {"PENDING": 3}
    positions = [line for group in job["groups"] for line in group["lines"] if line.startswith("queue ")]
    assert positions, job


def test_explain_running_throttled_and_ended_tasks(harness: Harness, why: Why) -> None:
    job_id = harness.create(harness.config("sleep 600", 3, sla=job_pb2.SlaConfig(maximumRunningInstances=1)))
    host = harness.running(job_id).host
    running = why("task", job_id, "0")
    assert running["state"] == "RUNNING" and f"on host {host}" in running["lines"]
    held = why("task", job_id, "2")
    assert held["state"] == "INITIALIZED"
    assert "maximumRunningInstances is 1" in held["cause"]
    assert groups(why("job", job_id)) == {"RUNNING": 1, "INITIALIZED": 2}
    failed = harness.config("exit 3", 2)
    failed.defaultConfig.restartPolicy.maxFailures = 1
    job_id = harness.create(failed)
    assert harness.ended(job_id).state == job_pb2.FAILED
    ended = why("task", job_id, "1")
    assert (ended["state"], ended["cause"]) == ("FAILED", "failed, exit code 3")
    assert "failed runs: 1; maxFailures 1: retries left: 0" in ended["lines"]
    [group] = why("job", job_id)["groups"]
    assert (group["state"], group["cause"], group["count"]) == ("FAILED", "failed, exit code 3", 2)


def small_pool(harness: Harness, name: str) -> str:
    """With room for one cpu."""
    config = respool_pb2.ResourcePoolConfig(
        name=name,
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[
            respool_pb2.ResourceConfig(kind=kind, limit=limit, share=1)
            for kind, limit in (("cpu", 1), ("memory", 1e6), ("disk", 1e6))
        ],
    )
    answer = harness.client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=config), timeout=SECONDS
    )
    assert not answer.HasField("error"), answer
    return str(answer.result.value)


def test_a_gang_over_a_limit_is_reported_and_not_queued(harness: Harness, why: Why) -> None:
    config = harness.config("sleep 600", 3, sla=job_pb2.SlaConfig(minimumRunningInstances=3))
    config.defaultConfig.resource.cpuLimit = 0.5
    config.respoolID.value = small_pool(harness, "small")
    job_id = harness.create(config)
    told: dict[str, Any] = {}

    def refused() -> bool:
        told.update(why("task", job_id, "1"))
        return "cpu: gang 1.5 cores > limit 1 core of /small" in told["text"]

    wait_for(refused, SECONDS, lambda: str(told))
    assert told["state"] == "INITIALIZED"
    assert harness.tasks(job_id)[2].runtime.reason == "cpu: gang 1.5 cores > limit 1 core of /small"
    assert groups(why("job", job_id)) == {"INITIALIZED": 3}


def test_a_deleted_pool_accepts_no_job(harness: Harness) -> None:
    pool = small_pool(harness, "passing")
    request = respool_pb2.DeleteRequest(path=respool_pb2.ResourcePoolPath(value="/passing"))
    assert not harness.client.respool_svc.DeleteResourcePool(request, timeout=SECONDS).HasField("error")
    config = harness.config("true")
    config.respoolID.value = pool
    answer = harness.client.job_svc.Create(job_pb2.CreateRequest(config=config), timeout=SECONDS)
    assert pool in str(answer.error)

"""Gangs that no host could take, against real daemons."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, wait_for

SECONDS = 60
LACK = "needs 5 cpu on one host; the largest of 3 hosts has 4; waits for a host with at least 5 cpu"


@pytest.fixture
def large(harness: Harness) -> Iterator[str]:
    """A job of 200 gangs of 5 cpus, on hosts of 4, stopped at the end: it would fill a larger host."""
    config = harness.config("true", 200)
    config.defaultConfig.resource.cpuLimit = 5
    job_id = harness.create(config)
    yield job_id
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id))
    harness.client.task_svc.Stop(request, timeout=30)
    assert harness.ended(job_id).state == job_pb2.KILLED


def reasons(harness: Harness, job_id: str) -> set[str]:
    return {task.runtime.reason for task in harness.tasks(job_id).values()}


def test_infeasible_tasks_block_no_others_and_report_what_is_missing(harness: Harness, large: str) -> None:
    """The small task comes while the large ones are being looked at."""
    wait_for(lambda: any(reasons(harness, large)), SECONDS)
    began = time.monotonic()
    small = harness.create(harness.config("true"))
    assert harness.ended(small).state == job_pb2.SUCCEEDED
    took = time.monotonic() - began
    assert took < 30, f"a task of 0.1 cpu took {took:.1f} s"
    wait_for(lambda: reasons(harness, large) == {LACK}, SECONDS, lambda: str(reasons(harness, large)))
    assert harness.runtime(large).state == job_pb2.PENDING


def test_tasks_larger_than_the_cluster_block_no_others(harness: Harness) -> None:
    config = harness.config("true")
    config.defaultConfig.resource.cpuLimit = 13
    job_id = harness.create(config)
    told = {"needs 13 cpu at a time; the cluster has 12; waits for a cluster with at least 13 cpu"}
    wait_for(lambda: reasons(harness, job_id) == told, SECONDS, lambda: str(reasons(harness, job_id)))
    assert harness.ended(harness.create(harness.config("true"))).state == job_pb2.SUCCEEDED


def test_the_command_line_warns_and_explains(
    harness: Harness,
    large: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    spec = tmp_path / "large.yaml"
    resource = "{cpuLimit: 5, memLimitMb: 32, diskLimitMb: 8}"
    spec.write_text(
        "name: large\ninstanceCount: 4\nsla: {preemptible: true}\n"
        f"defaultConfig: {{command: {{value: 'true'}}, resource: {resource}}}\n"
    )
    assert main(["job", "create", "/test", str(spec)]) == 0
    assert capfd.readouterr().err == (
        f"warning: instances 0-3 cannot be placed, not even on empty hosts: {LACK}\n"
    )
    wait_for(lambda: reasons(harness, large) == {LACK}, SECONDS, lambda: str(reasons(harness, large)))
    assert main(["job", "why", large, "-j"]) == 0
    [group] = json.loads(capfd.readouterr().out)["groups"]
    cause = f"no host could take it, even when empty: {LACK}"
    assert (group["state"], group["count"], group["cause"]) == ("PENDING", 200, cause)
    assert main(["task", "why", large, "7", "-j"]) == 0
    told: dict[str, Any] = json.loads(capfd.readouterr().out)["resmgr"]["shortage"]
    assert (told["lack"], told["kind"], told["needed"], told["largest"]) == ("LACK_RESOURCE", "cpu", 5, 4)


def test_a_dry_run_shows_where_instances_would_go(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    spec = tmp_path / "mixed.yaml"
    resource = "{cpuLimit: 1, memLimitMb: 32, diskLimitMb: 8}"
    spec.write_text(
        "name: mixed\ninstanceCount: 8\nsla: {preemptible: true}\n"
        f"defaultConfig: {{command: {{value: 'true'}}, resource: {resource}}}\n"
        "instanceConfig: {7: {resource: {cpuLimit: 5, memLimitMb: 32, diskLimitMb: 8}}}\n"
    )
    jobs = job_pb2.QueryRequest(spec=job_pb2.QuerySpec())
    before = harness.client.job_svc.Query(jobs, timeout=30).pagination.total

    def planned(*arguments: str) -> dict[str, Any]:
        assert main(["job", "create", "/test", str(spec), "--dry-run", "-j", *arguments]) == 0
        found: dict[str, Any] = json.loads(capfd.readouterr().out)
        return found

    def all_free() -> bool:
        small, _ = planned()["groups"]
        return bool(small["plan"].get("placed") == 7)

    wait_for(all_free, SECONDS, lambda: str(planned()))
    small, large = planned()["groups"]
    assert (small["instances"], small["count"], large["instances"]) == ("0-6", 7, "7")
    assert sum(each["hosts"] * each["tasks"] for each in small["plan"]["hosts"]) == 7
    assert large["plan"]["shortage"]["lack"] == "LACK_RESOURCE"
    assert main(["job", "create", "/test", str(spec), "--dry-run"]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[:3] == [
        "Nothing is created. As things are now:",
        "instances 0-6:",
        "  7 would be placed now, on 2 hosts",
    ]
    assert shown[-2:] == ["instance 7:", f"  1: no host could take it, even when empty: {LACK}"]
    spec.write_text("name: mixed\ninstanceCount: -1\n")
    assert main(["job", "create", "/test", str(spec), "--dry-run"]) == 1
    assert harness.client.job_svc.Query(jobs, timeout=30).pagination.total == before, "nothing was created"


def test_infeasible_tasks_start_when_a_larger_host_registers(harness: Harness) -> None:
    config = harness.config("true", 3)
    config.defaultConfig.resource.cpuLimit = 6
    job_id = harness.create(config)
    told = {LACK.replace("5 cpu", "6 cpu")}
    wait_for(lambda: reasons(harness, job_id) == told, SECONDS, lambda: str(reasons(harness, job_id)))
    agent = next(part.name for part in harness.cluster.components() if part.kind == "mesos-agent")
    harness.cluster.stop([agent])
    harness.cluster.start([agent], {"resources": "cpus:6;mem:2048;disk:20000;ports:[31000-31999]"})
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED

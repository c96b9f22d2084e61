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
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main
from peloton.model.constraint import Condition, Kind, LabelConstraint, OrConstraint
from peloton.wire.constraint import constraint_to

from .conftest import TERMINAL, Harness, wait_for

SECONDS = 60
APART = (
    "needs room for 4 tasks at a time, of which its constraint allows 1 on a host; "
    "3 hosts have room for 3 when empty"
)
LACK = "needs 5 cores on one host; the largest of 3 hosts has 4 cores; waits for a host with at least 5 cores"


@pytest.fixture
def large(harness: Harness) -> Iterator[str]:
    """A job of 200 gangs of 5 cpus, on hosts of 4, stopped at the end: it would fill a larger host."""
    config = harness.config("true", 200)
    config.defaultConfig.resource.cpuLimit = 5
    job_id = harness.create(config)
    yield from _stopped(harness, job_id)


@pytest.fixture
def apart(harness: Harness) -> Iterator[str]:
    """A gang of 4 tasks that keep apart, on 3 hosts; a host with the attribute `shared` takes several."""
    config = harness.config("true", 4, sla=job_pb2.SlaConfig(minimumRunningInstances=4))
    config.defaultConfig.labels.add(key="app", value="web")
    away = LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("app", "web"), 1)
    shared = LabelConstraint(Kind.HOST, Condition.EQUAL, ("shared", "yes"), 1)
    config.defaultConfig.constraint.CopyFrom(constraint_to(OrConstraint((away, shared))))
    yield from _stopped(harness, harness.create(config))


@pytest.fixture
def ports(harness: Harness) -> Iterator[str]:
    """A gang of 7 tasks with 500 dynamic ports each, on 3 hosts of 1000 ports."""
    config = harness.config("true", 7, sla=job_pb2.SlaConfig(minimumRunningInstances=7))
    for number in range(500):
        config.defaultConfig.ports.add(name=f"p{number}", envName=f"P{number}")
    yield from _stopped(harness, harness.create(config))


def _stopped(harness: Harness, job_id: str) -> Iterator[str]:
    yield job_id
    if harness.runtime(job_id).state in TERMINAL:
        return
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
    told = {"needs 13 cores at a time; the cluster has 12 cores; waits for a cluster with at least 13 cores"}
    wait_for(lambda: reasons(harness, job_id) == told, SECONDS, lambda: str(reasons(harness, job_id)))
    assert harness.ended(harness.create(harness.config("true"))).state == job_pb2.SUCCEEDED


def test_gangs_that_keep_apart_and_too_many_ports_block_no_others(
    harness: Harness, apart: str, ports: str
) -> None:
    told = {f"{APART}; waits for more hosts that take such a task"}
    wait_for(lambda: reasons(harness, apart) == told, SECONDS, lambda: str(reasons(harness, apart)))
    lack = "needs room for 7 tasks at a time; 3 hosts have room for 6 when empty"
    told = {f"{lack}; waits for more hosts that take such a task"}
    wait_for(lambda: reasons(harness, ports) == told, SECONDS, lambda: str(reasons(harness, ports)))
    pool = peloton_pb2.ResourcePoolID(value=harness.pool)
    found = harness.client.respool_svc.GetResourcePool(respool_pb2.GetRequest(id=pool), timeout=30)
    assert not any(usage.allocation for usage in found.poolinfo.usage), "they hold no allocation"
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


def test_a_dry_run_of_a_service_and_of_a_daemon_job(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    spec = tmp_path / "job.yaml"

    def planned(*command: str) -> dict[str, Any]:
        assert main([*command, "--dry-run", "-j"]) == 0, capfd.readouterr().err
        found: dict[str, Any] = json.loads(capfd.readouterr().out)
        [group] = found["groups"]
        return dict(group)

    resource = "{cpuLimit: 1, memLimitMb: 32, diskLimitMb: 8}"
    service = (
        "name: web\nowningTeam: infra\ninstanceCount: 5\nsla: {preemptible: true}\n"
        "defaultSpec: {containers: [{resource: %s, command: {shell: true, value: 'sleep 600'}}],"
        " mesosSpec: {shell: true}}\n"
    )
    spec.write_text(service % resource)
    create_service = ("job", "stateless", "create", "/test", str(spec), "1")
    wait_for(lambda: planned(*create_service)["plan"].get("placed") == 5, SECONDS)
    group = planned(*create_service)
    assert sum(each["hosts"] * each["tasks"] for each in group["plan"]["hosts"]) == 5
    spec.write_text(service % resource.replace("1", "5", 1))
    assert planned(*create_service)["plan"]["refused"] == LACK

    daemon = "name: agent\ntype: DAEMON\ndefaultConfig: {command: {value: 'true'}, resource: %s}\n"
    spec.write_text(daemon % resource)
    create_daemon = ("job", "create", "/test", str(spec))
    wait_for(lambda: planned(*create_daemon)["plan"].get("placed") == 3, SECONDS)
    [row] = planned(*create_daemon)["plan"]["hosts"]
    assert (row["hosts"], row["tasks"], len(row["names"])) == (3, 1, 3), "one on each host"
    assert main(["job", "create", "/test", str(spec), "--dry-run"]) == 0
    assert "  3 would be placed now, on 3 hosts" in capfd.readouterr().out.splitlines()
    spec.write_text(daemon % resource.replace("1", "5", 1))
    assert planned(*create_daemon)["plan"]["refused"] == LACK
    assert not harness.client.job_svc.Query(
        job_pb2.QueryRequest(spec=job_pb2.QuerySpec(keywords=["agent"])), timeout=30
    ).records, "nothing was created"


def test_infeasible_tasks_start_when_a_larger_host_registers(harness: Harness, apart: str) -> None:
    """The host has an attribute besides, which the gang that keeps apart waits for."""
    config = harness.config("true", 3)
    config.defaultConfig.resource.cpuLimit = 6
    job_id = harness.create(config)
    told = {LACK.replace("5 cores", "6 cores")}
    wait_for(lambda: reasons(harness, job_id) == told, SECONDS, lambda: str(reasons(harness, job_id)))
    agent = next(part.name for part in harness.cluster.components() if part.kind == "mesos-agent")
    harness.cluster.stop([agent])
    kept = {f"{APART}; waits for more hosts that take such a task"}
    wait_for(lambda: reasons(harness, apart) == kept, SECONDS, lambda: str(reasons(harness, apart)))
    resources = "cpus:6;mem:2048;disk:20000;ports:[31000-31999]"
    harness.cluster.start([agent], {"resources": resources, "attributes": "shared:yes"})
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    assert harness.ended(apart).state == job_pb2.SUCCEEDED


def dry_run(spec: Path, capfd: pytest.CaptureFixture[str], pool: str = "/test") -> tuple[int, str, str]:
    """The exit code of a dry run, what it prints, and its complaints."""
    code = main(["job", "create", pool, str(spec), "--dry-run"])
    shown = capfd.readouterr()
    return code, shown.out, shown.err


def test_dry_runs_that_fail_say_why(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No pool, too many kinds of instances, a full pool, no engine, and no host manager."""
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    resource = "{cpuLimit: 1, memLimitMb: 32, diskLimitMb: 8}"
    spec, kinds = tmp_path / "job.yaml", tmp_path / "kinds.yaml"
    text = (
        "name: planned\ninstanceCount: 1200\nsla: {preemptible: true}\n"
        f"defaultConfig: {{command: {{value: 'true'}}, resource: {resource}}}\n"
    )
    spec.write_text(text.replace("1200", "4"))
    overrides = (f"  {i}: {{resource: {resource.replace('32', str(100 + i))}}}\n" for i in range(1100))
    kinds.write_text(text + "instanceConfig:\n" + "".join(overrides))
    code, shown, _ = dry_run(spec, capfd, "/nowhere")
    assert code == 1 and "no resource pool '/nowhere': / has no child 'nowhere'\n" in shown
    code, told, _ = dry_run(spec, capfd, "/")
    assert code == 1 and "'root' is not the id of a leaf of the pool tree: the root takes no jobs" in told
    code, told, _ = dry_run(kinds, capfd)
    assert code == 1
    assert "the instances ask for 1101 different things; a plan compares at most 1000" in told
    limits = [
        respool_pb2.ResourceConfig(kind=kind, limit=limit, share=1)
        for kind, limit in (("cpu", 3), ("memory", 1e6), ("disk", 1e6), ("gpu", 0))
    ]
    config = respool_pb2.ResourcePoolConfig(
        name="narrow", parent=peloton_pb2.ResourcePoolID(value="root"), resources=limits
    )
    harness.client.respool_svc.CreateResourcePool(respool_pb2.CreateRequest(config=config), timeout=30)
    queue = "1 would wait in the queue of the pool: "
    waiting = f"{queue}cpu: allocation 3 cores + gang 1 core > entitlement 3 cores in /narrow"
    # The pool's entitlement grows to its limit within a few rounds.
    wait_for(lambda: waiting in dry_run(spec, capfd, "/narrow")[1], SECONDS)
    placement = [part.name for part in harness.cluster.components() if part.kind == "placement"]
    harness.cluster.stop(placement)
    try:
        code, shown, _ = dry_run(spec, capfd)
        lack = "no placement engine for BATCH tasks has asked for work in time"
        assert code == 0 and f"4 would be admitted and wait for a host: {lack}" in shown
        harness.cluster.stop(["hostmgr0"])
        code, shown, told = dry_run(spec, capfd)
        assert (code, shown) == (3, "")
        assert "no leader of hostmgr is known" in told or "hostmgr 127.0.0.1" in told
        assert "DEADLINE" not in told
    finally:
        harness.cluster.start([*placement, "hostmgr0"])
    wait_for(lambda: "4 would be placed now" in dry_run(spec, capfd)[1], SECONDS)

"""Host pools on a cluster of real processes: hosts moved between pools, and tasks that run in theirs."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from minicluster.settings import DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2 as pb
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main
from peloton.model.host_pool import in_pool
from peloton.wire.constraint import constraint_to

from .conftest import Harness, harness_of, wait_for
from .test_minicluster import agent_of

AGENTS = ("peloton-mesos-agent0", "peloton-mesos-agent1", "peloton-mesos-agent2")
A0, A1, A2 = AGENTS
POOLS = {"default": [A0], "shared": [A1], "batch_reserved": [A2]}
"""How each test begins."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, settings=DaemonSettings(hostmgr={"enable_host_pool": True})) as held:
        yield held


@pytest.fixture
def harness(whole: Harness) -> Harness:
    """The cluster with the hosts in `POOLS`, and no other pools."""
    found = pools(whole)
    for name in set(found) - set(POOLS):
        whole.client.host_svc.DeleteHostPool(pb.DeleteHostPoolRequest(name=name), timeout=30)
    for name in set(POOLS) - set(found):
        create(whole, name)
    for name, hosts in POOLS.items():
        for host in hosts:
            change(whole, host, name)
    assert pools(whole) == POOLS
    return whole


def pools(harness: Harness) -> Mapping[str, list[str]]:
    answer = harness.client.host_svc.ListHostPools(pb.ListHostPoolsRequest(), timeout=30)
    return {pool.name: list(pool.hosts) for pool in answer.pools}


def create(harness: Harness, name: str) -> None:
    harness.client.host_svc.CreateHostPool(pb.CreateHostPoolRequest(name=name), timeout=30)


def change(harness: Harness, host: str, destination: str, source: str = "") -> None:
    request = pb.ChangeHostPoolRequest(hostname=host, sourcePool=source, destinationPool=destination)
    harness.client.host_svc.ChangeHostPool(request, timeout=30)


def gauge(harness: Harness, name: str) -> dict[tuple[str, str], float]:
    """A metric of hostmgr by pool and kind."""
    (address,) = (each.addresses["http"] for each in harness.cluster.status() if each.name == "hostmgr0")
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        (family,) = (each for each in families if each.name == name)
    return {(each.labels["pool"], each.labels.get("kind", "")): each.value for each in family.samples}


def hosts_of(harness: Harness, job_id: str, instances: int) -> set[str]:
    """The hosts of a job's tasks, once all of them run."""

    def all_run() -> bool:
        states = [each.runtime.state for each in harness.tasks(job_id).values()]
        return states == [task_pb2.RUNNING] * instances

    wait_for(all_run, 90, lambda: str(harness.waiting(job_id)))
    return {each.runtime.host for each in harness.tasks(job_id).values()}


def stop(harness: Harness, job_id: str) -> None:
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)
    harness.ended(job_id)


def test_each_kind_of_job_runs_in_its_pool(harness: Harness) -> None:
    create(harness, "stateless")
    change(harness, A0, "stateless")
    preemptible = harness.create(harness.config("sleep 600", 8))
    reserved = harness.config("sleep 600", 3)
    reserved.sla.preemptible = False
    not_preemptible = harness.create(reserved)
    service = harness.config("sleep 600", 2, type=job_pb2.SERVICE)
    service.defaultConfig.ClearField("restartPolicy")
    services = harness.create(service)
    elsewhere = harness.config("sleep 600", 2)
    elsewhere.defaultConfig.constraint.CopyFrom(constraint_to(in_pool("batch_reserved")))
    own_choice = harness.create(elsewhere)
    assert hosts_of(harness, own_choice, 2) == {A2}, "a pool that the job names counts instead"
    stop(harness, own_choice)
    assert hosts_of(harness, preemptible, 8) == {A1}
    assert hosts_of(harness, not_preemptible, 3) == {A2}
    assert hosts_of(harness, services, 2) == {A0}
    found: dict[str, dict[tuple[str, str], float]] = {}

    def measured() -> bool:
        found.update({name: gauge(harness, f"hostmgr_host_pool_{name}") for name in ("hosts", "allocation")})
        return found["allocation"].get(("shared", "cpu")) == pytest.approx(0.8)

    wait_for(measured, 90, lambda: str(found))
    assert found["hosts"] == {
        ("default", ""): 0,
        ("shared", ""): 1,
        ("batch_reserved", ""): 1,
        ("stateless", ""): 1,
    }
    assert gauge(harness, "hostmgr_host_pool_capacity")["shared", "memory"] == 2048
    for job_id in (preemptible, not_preemptible, services):
        stop(harness, job_id)


def test_a_job_waits_for_a_host_of_its_pool_and_says_so(harness: Harness) -> None:
    change(harness, A1, "default")
    job_id = harness.create(harness.config("sleep 600", 2))

    def says_so() -> bool:
        reasons = [each.runtime.reason for each in harness.tasks(job_id).values()]
        return len(reasons) == 2 and all("shared" in reason or "constraint" in reason for reason in reasons)

    wait_for(says_so, 90, lambda: str(harness.waiting(job_id)))
    change(harness, A0, "shared")
    assert hosts_of(harness, job_id, 2) == {A0}
    stop(harness, job_id)


def test_pools_and_their_hosts_outlive_hostmgr(harness: Harness) -> None:
    create(harness, "empty")
    harness.cluster.kill(["hostmgr0"])
    harness.cluster.start(["hostmgr0"])
    wait_for(lambda: pools(harness) == {**POOLS, "empty": []}, 60, lambda: str(pools(harness)))
    job_id = harness.create(harness.config("sleep 600", 4))
    assert hosts_of(harness, job_id, 4) == {A1}
    stop(harness, job_id)


def test_hosts_of_a_deleted_pool_go_to_default(harness: Harness) -> None:
    harness.client.host_svc.DeleteHostPool(pb.DeleteHostPoolRequest(name="shared"), timeout=30)
    assert pools(harness) == {"default": [A0, A1], "batch_reserved": [A2]}
    with pytest.raises(grpc.RpcError) as refused:
        harness.client.host_svc.DeleteHostPool(pb.DeleteHostPoolRequest(name="default"), timeout=30)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def move(harness: Harness, source: str, left: int, destination: str, wanted: int) -> None:
    request = pb.MoveHostsRequest(
        sourcePool=source,
        srcPoolDesiredHosts=left,
        destinationPool=destination,
        destPoolDesiredHosts=wanted,
    )
    harness.client.host_svc.MoveHosts(request, timeout=30)


def wait_until_arrived(harness: Harness, host: str, pool: str) -> None:
    """Wait until a host is up in its new pool, then start its agent, which Mesos has ended."""

    def arrived() -> bool:
        answer = harness.client.host_svc.QueryHosts(pb.QueryHostsRequest(), timeout=30)
        hosts = {each.hostname: each for each in answer.host_infos}
        return host in hosts and (hosts[host].state, hosts[host].current_pool, hosts[host].desired_pool) == (
            host_pb2.HOST_STATE_UP,
            pool,
            pool,
        )

    wait_for(
        arrived, 180, lambda: str(harness.client.host_svc.QueryHosts(pb.QueryHostsRequest(), timeout=30))
    )
    name = agent_of(harness, host)
    harness.cluster.stop([name])
    harness.cluster.start([name])


def test_hosts_of_a_daemon_job_that_is_not_preemptible_stay(harness: Harness) -> None:
    config = harness.config("sleep 600", 0, type=job_pb2.DAEMON)
    config.sla.preemptible = False
    config.defaultConfig.ClearField("restartPolicy")
    daemon = harness.create(config)
    assert hosts_of(harness, daemon, 3) == set(AGENTS), "host pools do not bound it"
    with pytest.raises(grpc.RpcError) as refused:
        move(harness, "shared", 0, "default", 2)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "but none of 1 can: 1 has tasks that are not preemptible" in str(refused.value.details())
    stop(harness, daemon)


@pytest.mark.extended
def test_hosts_are_moved_while_hostmgr_dies(harness: Harness) -> None:
    change(harness, A0, "shared")
    reserved = harness.config("sleep 600", 1)
    reserved.sla.preemptible = False
    not_preemptible = harness.create(reserved)
    assert hosts_of(harness, not_preemptible, 1) == {A2}
    preemptible = harness.create(harness.config("sleep 600", 1))
    (busy,) = hosts_of(harness, preemptible, 1)
    (idle,) = {A0, A1} - {busy}
    with pytest.raises(grpc.RpcError) as refused:
        move(harness, "batch_reserved", 0, "shared", 3)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "but none of 1 can: 1 has tasks that are not preemptible" in str(refused.value.details())

    move(harness, "shared", 1, "batch_reserved", 2)
    wait_until_arrived(harness, idle, "batch_reserved")
    assert pools(harness) == {"default": [], "shared": [busy], "batch_reserved": sorted([idle, A2])}
    assert harness.running(preemptible).host == busy, "a host without tasks goes first"

    move(harness, "shared", 0, "default", 1)
    harness.cluster.kill(["hostmgr0"])
    harness.cluster.start(["hostmgr0"])
    wait_until_arrived(harness, busy, "default")
    assert pools(harness) == {"default": [busy], "shared": [], "batch_reserved": sorted([idle, A2])}
    change(harness, busy, "shared")
    assert hosts_of(harness, preemptible, 1) == {busy}
    runtime = harness.running(preemptible)
    assert (runtime.mesosTaskId.value, runtime.failureCount) == (f"{preemptible}-0-2", 0)
    for job_id in (preemptible, not_preemptible):
        stop(harness, job_id)


def test_the_commands(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def run(line: str, code: int = 0) -> str:
        capfd.readouterr()
        assert main(["hostpool", *line.split()]) == code, (line, capfd.readouterr())
        return "".join(capfd.readouterr())

    listed = [row for row in run("list").splitlines()[1:] if not row.startswith("No host is in ")]
    rows = [row.split()[:2] for row in listed]
    assert sorted(rows) == [[name, "1"] for name in sorted(POOLS)]
    assert A1 in run("list-hosts shared") and A0 not in run("list-hosts shared")
    assert "nowhere" in run("list-hosts nowhere", code=1)
    run("create cli")
    assert "cli" in run("create cli", code=1)
    assert "default" in run(f"change {A0} cli -s shared", code=1)
    run(f"change {A0} cli -s default")
    assert pools(harness)["cli"] == [A0]
    assert "cli" in run("move cli 0 nowhere 1", code=1) + run("move nowhere 0 cli 1", code=1)
    run("delete cli")
    assert pools(harness) == POOLS
    assert "default" in run("delete default", code=1)

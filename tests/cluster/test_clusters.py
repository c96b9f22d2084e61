"""Two Mesos clusters under one Peloton: one without a name, `east`; hosts of both have the same names."""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from minicluster.settings import Agent, DaemonSettings, NamedCluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.cli.__main__ import main
from peloton.client import LocalDiscovery, PelotonClient
from peloton.client.discovery import InCluster
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.wire.constraint import constraint_to

from .conftest import Harness, harness_of, wait_for
from .freezing import frozen
from .moving_jobs import batch_goes_by_its_next_runs, service_goes_batch_by_batch_and_back
from .service_job import ServiceJob

SECONDS = 120
SLEEP = "exec sleep 600"
NAMES = ("host0", "host1")
OWN, EAST = {"host0", "host1"}, {"east/host0", "east/host1"}
MESOS_OF_EAST = ("mesos-master-east", "mesos-agent0-east", "mesos-agent1-east")


def _agents(first_port: int) -> tuple[Agent, ...]:
    return tuple(
        Agent(
            hostname=name,
            resources=f"cpus:4;mem:2048;disk:20000;"
            f"ports:[{first_port + 1000 * i}-{first_port + 1000 * i + 999}]",
        )
        for i, name in enumerate(NAMES)
    )


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    quick = {"capacity_first": 0.5, "capacity_interval": 0.5}
    with harness_of(
        tmp_path_factory,
        agents=_agents(31000),
        clusters=(NamedCluster(name="east", agents=_agents(33000)),),
        settings=DaemonSettings(resmgr=quick, hostmgr={"mesos": {"agents_interval": 1.0}}),
    ) as held:
        yield held


def capacity(harness: Harness) -> float:
    """The cpu of the root pool, which is the capacity of all clusters."""
    request = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value="root"))
    pool = harness.client.respool_svc.GetResourcePool(request, timeout=SECONDS).poolinfo
    return next(float(each.reservation) for each in pool.config.resources if each.kind == "cpu")


def hosts_of(harness: Harness, job_id: str) -> set[str]:
    return {task.runtime.host for task in harness.tasks(job_id).values()}


def in_east(harness: Harness, command: str, instances: int = 1) -> job_pb2.JobConfig:
    return in_cluster(harness, Condition.EQUAL, command, instances)


def in_cluster(harness: Harness, east: Condition, command: str, instances: int = 1) -> job_pb2.JobConfig:
    """A job on hosts whose count of the label cluster=east compares so with 1."""
    config = harness.config(command, instances)
    leaf = LabelConstraint(Kind.HOST, east, ("cluster", "east"), 1)
    config.defaultConfig.constraint.CopyFrom(constraint_to(leaf))
    return config


def stop(harness: Harness, job_id: str) -> None:
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=SECONDS)
    assert harness.ended(job_id, SECONDS).state == job_pb2.KILLED


def output(harness: Harness, job_id: str) -> str:
    request = task_pb2.BrowseSandboxRequest(jobId=peloton_pb2.JobID(value=job_id))
    sandbox = harness.client.task_svc.BrowseSandbox(request, timeout=SECONDS)
    (path,) = (path for path in sandbox.paths if path.endswith("/stdout"))
    url = f"http://{sandbox.hostname}:{sandbox.port}/files/download?{urllib.parse.urlencode({'path': path})}"
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def runs_elsewhere(harness: Harness) -> None:
    """Run a job to its end in the cluster without a name."""
    job_id = harness.create(harness.config("true", 4))
    assert harness.ended(job_id, SECONDS).state == job_pb2.SUCCEEDED
    assert hosts_of(harness, job_id) <= OWN


def test_the_capacity_is_the_sum(harness: Harness) -> None:
    wait_for(lambda: capacity(harness) == 16, SECONDS, lambda: str(capacity(harness)))


def test_a_job_runs_in_both_and_its_hosts_tell_where(harness: Harness) -> None:
    """Its tasks find room in both clusters only. Their kills reach both."""
    config = harness.config(SLEEP, 10)
    config.defaultConfig.resource.cpuLimit = 1
    job_id = harness.create(config)
    for instance in range(10):
        harness.running(job_id, instance)
    assert hosts_of(harness, job_id) & OWN and hosts_of(harness, job_id) & EAST
    stop(harness, job_id)


def test_hosts_show_their_cluster(harness: Harness) -> None:
    discovery = LocalDiscovery(harness.cluster.layout.membership)
    assert discovery.clusters() == ["", "east"]
    client = PelotonClient("test", discovery=InCluster(discovery, "east"))
    request = host_svc_pb2.QueryHostsRequest()
    found = client.host_svc.QueryHosts(request, timeout=SECONDS).host_infos
    client.close()
    assert {host.hostname for host in found} == EAST
    assert all(("cluster", "east") in {(each.key, each.value) for each in host.labels} for host in found)
    own = harness.client.host_svc.QueryHosts(request, timeout=SECONDS).host_infos
    assert {host.hostname for host in own} == OWN


def test_a_task_goes_where_its_constraint_says_and_its_output_is_found(harness: Harness) -> None:
    job_id = harness.create(in_east(harness, "echo from east"))
    assert harness.ended(job_id, SECONDS).state == job_pb2.SUCCEEDED
    assert hosts_of(harness, job_id) <= EAST
    assert output(harness, job_id) == "from east\n"


def test_a_batch_job_moves_by_its_next_runs(harness: Harness) -> None:
    batch_goes_by_its_next_runs(harness, "east", cores=8)


def test_a_service_moves_batch_by_batch_and_back(harness: Harness) -> None:
    service_goes_batch_by_batch_and_back(harness, "east")


def test_the_commands_of_the_page(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """docs/operations.md, Move jobs: a service by its name, there and back, and a pool."""
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def run(*words: str) -> str:
        capfd.readouterr()
        code = main(["job", "move", *words])
        out, err = capfd.readouterr()
        assert code == 0, (words, out, err)
        return str(out)

    def shop(spec: stateless_pb2.JobSpec) -> None:
        spec.name = "shop"

    job = ServiceJob(harness, 3, shop)
    job.await_states(*[pod_pb2.POD_STATE_RUNNING] * 3)
    assert "3/3 done" in run("shop", "--to", "east", "--follow")
    assert {pod.status.host for pod in job.list()} <= EAST
    assert "goes to the cluster without a name, 1 instance at a time" in run(
        "shop", "--to-unnamed", "--follow"
    )
    assert {pod.status.host for pod in job.list()} <= OWN
    assert "may go to any cluster" in run("shop", "--anywhere", "--follow", "--batch-size", "0")
    printed = run("--pool", "/test", "--to", "east", "-f", "--rollbackOnFailure")
    assert f"Job shop ({job.id.value}) goes to cluster east" in printed
    version = job.get().job_info.status.version
    job.jobs.StopJob(jobs_pb.StopJobRequest(job_id=job.id, version=version), timeout=SECONDS)


def test_maintenance_of_a_host_moves_its_task_and_comes_to_an_end(harness: Harness) -> None:
    """The host of the same name in the other cluster stays up."""
    discovery = LocalDiscovery(harness.cluster.layout.membership)
    client = PelotonClient("test", discovery=InCluster(discovery, "east"))
    job_id = harness.create(in_east(harness, SLEEP))
    host = harness.running(job_id).host

    def states(of: PelotonClient) -> dict[str, int]:
        found = of.host_svc.QueryHosts(host_svc_pb2.QueryHostsRequest(), timeout=SECONDS).host_infos
        return {each.hostname: each.state for each in found}

    def is_down() -> bool:
        return host not in states(client) or states(client)[host] == host_pb2.HOST_STATE_DOWN

    client.host_svc.StartMaintenance(host_svc_pb2.StartMaintenanceRequest(hostname=host), timeout=SECONDS)
    wait_for(is_down, SECONDS, lambda: str(states(client)))
    assert harness.running(job_id).host != host
    assert set(states(harness.client).values()) == {host_pb2.HOST_STATE_UP}
    request = host_svc_pb2.CompleteMaintenanceRequest(hostname=host)
    client.host_svc.CompleteMaintenance(request, timeout=SECONDS)
    name = NAMES.index(host.removeprefix("east/"))
    harness.cluster.start([f"mesos-agent{name}-east"])  # Mesos has ended it
    wait_for(lambda: states(client).get(host) == host_pb2.HOST_STATE_UP, SECONDS, lambda: str(states(client)))
    client.close()
    stop(harness, job_id)


def test_a_frozen_host_manager_takes_only_its_own_hosts_away(harness: Harness) -> None:
    """It answers nothing, and no other takes its place. Its tasks are not taken for lost."""
    there = harness.create(in_east(harness, SLEEP))
    run = harness.running(there).mesosTaskId.value
    with frozen(harness.cluster, "hostmgr-east"):
        runs_elsewhere(harness)
        waiting = harness.create(in_east(harness, "true"))
        runs_elsewhere(harness)
        assert harness.tasks(waiting)[0].runtime.state < task_pb2.LAUNCHED
    assert harness.ended(waiting, SECONDS).state == job_pb2.SUCCEEDED
    task = harness.tasks(there)[0].runtime
    assert (task.state, task.mesosTaskId.value) == (task_pb2.RUNNING, run)
    stop(harness, there)


def test_a_lost_cluster_takes_only_its_own_hosts_away(harness: Harness) -> None:
    """The other places and ends jobs meanwhile, under new leaders too; its tasks are not taken for lost."""
    there = harness.create(in_east(harness, SLEEP))
    run = harness.running(there).mesosTaskId.value
    here = harness.create(in_cluster(harness, Condition.LESS_THAN, SLEEP))
    harness.running(here)
    harness.cluster.kill(["hostmgr-east", *MESOS_OF_EAST])
    runs_elsewhere(harness)
    for leader in ("jobmgr0", "resmgr0"):
        harness.cluster.kill([leader])
        harness.cluster.start([leader])
    runs_elsewhere(harness)
    waiting = harness.create(in_east(harness, "true"))
    task = harness.tasks(there)[0].runtime
    assert (task.state, task.mesosTaskId.value) == (task_pb2.RUNNING, run)
    stop(harness, here)
    assert harness.tasks(waiting)[0].runtime.state < task_pb2.LAUNCHED
    harness.cluster.start([*MESOS_OF_EAST, "hostmgr-east"])
    assert harness.ended(waiting, SECONDS).state == job_pb2.SUCCEEDED
    assert hosts_of(harness, waiting) <= EAST
    wait_for(lambda: capacity(harness) == 16, SECONDS, lambda: str(capacity(harness)))

"""A cluster of Mesos and one of Kubernetes under one Peloton: jobs over both, and pools that count both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.settings import DaemonSettings, NamedCluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.wire.constraint import constraint_to
from tests.cluster.conftest import Harness, harness_of, wait_for
from tests.cluster.moving_jobs import batch_goes_by_its_next_runs, service_goes_batch_by_batch_and_back
from tests.cluster.test_clusters import capacity, hosts_of
from tests.documented import blocks
from tests.kubernetes.real import RealKubernetes
from tools.docs import ROOT

SECONDS = 120
OWN = "tests/kubernetes/check_mixed.py"
MESOS_CORES, KUBERNETES_CORES = 12, 8
"""Three agents, and two kubelets, of 4 cores each."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    system = RealKubernetes(tmp_path_factory.mktemp("kubernetes"))
    quick = {"capacity_first": 0.5, "capacity_interval": 0.5}
    try:
        system.start()
        with harness_of(
            tmp_path_factory,
            clusters=(NamedCluster(name="k8s", kubernetes=str(system.kubeconfig)),),
            settings=DaemonSettings(resmgr=quick, hostmgr={"mesos": {"agents_interval": 1.0}}),
        ) as held:
            yield held
    finally:
        system.stop()


def stopped(mixed: Harness, job: str) -> None:
    mixed.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job)), timeout=SECONDS)
    assert mixed.ended(job, SECONDS).state == job_pb2.KILLED


def test_a_job_runs_over_both_and_a_pool_is_entitled_to_both(mixed: Harness) -> None:
    """It needs more cores than either has; the root pool has all of both."""
    whole = MESOS_CORES + KUBERNETES_CORES
    wait_for(lambda: capacity(mixed) == whole, SECONDS, lambda: str(capacity(mixed)))
    config = mixed.config("exec sleep 600", whole - 2)
    config.defaultConfig.resource.cpuLimit = 1
    job = mixed.create(config)
    for instance in range(whole - 2):
        mixed.running(job, instance)
    hosts = hosts_of(mixed, job)
    assert {host for host in hosts if host.startswith("k8s/")} <= {"k8s/host0", "k8s/host1"}
    assert {host.partition("/")[0] for host in hosts} > {"k8s"}
    stopped(mixed, job)


@pytest.mark.parametrize("there", [True, False], ids=["kubernetes", "mesos"])
def test_a_job_is_kept_to_one_of_them_by_a_constraint(mixed: Harness, there: bool) -> None:
    config = mixed.config("exit 0", 4)
    condition = Condition.EQUAL if there else Condition.LESS_THAN
    leaf = LabelConstraint(Kind.HOST, condition, ("cluster", "k8s"), 1)
    config.defaultConfig.constraint.CopyFrom(constraint_to(leaf))
    job = mixed.create(config)
    assert mixed.ended(job, SECONDS).state == job_pb2.SUCCEEDED
    assert {host.startswith("k8s/") for host in hosts_of(mixed, job)} == {there}


def test_the_commands_of_the_page(mixed: Harness, tmp_path: Path) -> None:
    """Those of docs/kubernetes.md: a service goes to Kubernetes, back, and with its pool."""
    (block,) = [each for each in blocks(ROOT / "docs/kubernetes.md") if each.said == OWN]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **mixed.cluster.urls(), "PATH": own}
    for command in block.text.replace("/team", "/test").splitlines():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        if "query" in command:
            assert "k8s/host0" in done.stdout
        if "run" in command:
            job = job_named(mixed, "web")
    wait_for(lambda: all_there(mixed, job), SECONDS, lambda: str(hosts_of(mixed, job)))
    mixed.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job)), timeout=SECONDS)


def job_named(mixed: Harness, name: str) -> str:
    spec = job_pb2.QuerySpec(name=name)
    answer = mixed.client.job_svc.Query(job_pb2.QueryRequest(spec=spec, summaryOnly=True), timeout=30)
    (found,) = answer.results
    return str(found.id.value)


def all_there(mixed: Harness, job: str) -> bool:
    tasks = mixed.tasks(job).values()
    return all(
        each.runtime.state == task_pb2.RUNNING and each.runtime.host.startswith("k8s/") for each in tasks
    )


def test_a_batch_job_moves_to_kubernetes_by_its_next_runs(mixed: Harness) -> None:
    batch_goes_by_its_next_runs(mixed, "k8s", cores=MESOS_CORES)


def test_a_service_moves_to_kubernetes_batch_by_batch_and_back(mixed: Harness) -> None:
    service_goes_batch_by_batch_and_back(mixed, "k8s")

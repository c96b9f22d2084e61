"""A cluster of Mesos and one of Kubernetes under one Peloton: jobs over both, and pools that count both."""

from __future__ import annotations

from collections.abc import Iterator

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
from tests.kubernetes.real import RealKubernetes

SECONDS = 120
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


def test_a_batch_job_moves_to_kubernetes_by_its_next_runs(mixed: Harness) -> None:
    batch_goes_by_its_next_runs(mixed, "k8s", cores=MESOS_CORES)


def test_a_service_moves_to_kubernetes_batch_by_batch_and_back(mixed: Harness) -> None:
    service_goes_batch_by_batch_and_back(mixed, "k8s")

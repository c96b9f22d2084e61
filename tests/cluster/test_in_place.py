"""An instance that is restarted in place finds its host held, though others wait for its room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.cluster import Cluster
from minicluster.settings import Agent, ClusterSettings
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2

from .conftest import Harness, wait_for
from .service_job import SECONDS, ServiceJob

HOSTS = tuple(Agent(hostname=f"place{i}", resources="cpus:4;mem:2048;disk:20000") for i in range(4))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    cluster = Cluster(tmp_path_factory.mktemp("minicluster") / "cluster")
    cluster.up(ClusterSettings(ports="free", agents=HOSTS))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


def big(spec: stateless_pb2.JobSpec) -> None:
    spec.default_spec.containers[0].resource.cpu_limit = 3


def waiter(harness: Harness, host: str, cpu: float, seconds: int) -> str:
    """Creates a job that takes what the service leaves on its host, and nothing else."""
    config = harness.config(f"sleep {seconds}")
    config.defaultConfig.resource.cpuLimit = cpu
    constraint = config.defaultConfig.constraint
    constraint.type = task_pb2.Constraint.LABEL_CONSTRAINT
    label = constraint.labelConstraint
    label.kind, label.condition = task_pb2.LabelConstraint.HOST, task_pb2.LabelConstraint.CONDITION_EQUAL
    label.label.key, label.label.value, label.requirement = "hostname", host, 1
    return harness.create(config)


def test_a_restart_in_place_comes_back_to_its_host(harness: Harness) -> None:
    service = ServiceJob(harness, 1, big)
    service.await_states(pod_pb2.POD_STATE_RUNNING)
    host = service.list()[0].status.host
    jobs = [waiter(harness, host, 3, 1) for _ in range(2)]
    wait_for(lambda: all(harness.tasks(job)[0].runtime.reason for job in jobs), 60)
    for run in (2, 3, 4):
        restart = stateless_pb2.RestartSpec(in_place=True)
        version = service.get().job_info.status.version
        request = jobs_pb.RestartJobRequest(job_id=service.id, version=version, restart_spec=restart)
        service.jobs.RestartJob(request, timeout=SECONDS)
        wait_for(lambda run=run: service.run(0) == run, 60)  # type: ignore[misc]
        service.await_states(pod_pb2.POD_STATE_RUNNING)
        assert service.list()[0].status.host == host
    assert all(harness.runtime(job).state == job_pb2.PENDING for job in jobs)

    assert harness.ended(waiter(harness, host, 0.5, 0)).state == job_pb2.SUCCEEDED, "it is held no longer"
    version = service.get().job_info.status.version
    service.jobs.StopJob(jobs_pb.StopJobRequest(job_id=service.id, version=version), timeout=SECONDS)
    for job in jobs:
        assert harness.ended(job).state == job_pb2.SUCCEEDED

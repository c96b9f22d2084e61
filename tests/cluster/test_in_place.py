"""An instance that is restarted in place finds its host held, though others wait for its room."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from minicluster.settings import Agent
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.private.resmgr.explain import explain_pb2

from .conftest import Harness, harness_of, wait_for
from .service_job import SECONDS, ServiceJob

HOSTS = tuple(Agent(hostname=f"place{i}", resources="cpus:4;mem:2048;disk:20000") for i in range(4))


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory, agents=HOSTS) as held:
        yield held


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


def replaced(service: ServiceJob, cpu: float) -> None:
    """Begins an update in place to another amount of CPU."""
    spec = stateless_pb2.JobSpec()
    spec.CopyFrom(service.spec)
    spec.default_spec.containers[0].resource.cpu_limit = cpu
    request = jobs_pb.ReplaceJobRequest(
        job_id=service.id,
        version=service.get().job_info.status.version,
        spec=spec,
        update_spec=stateless_pb2.UpdateSpec(in_place=True),
    )
    service.jobs.ReplaceJob(request, timeout=SECONDS)


def held_on(harness: Harness, host: str) -> list[tuple[str, str]]:
    """For whom room of a host is held: jobs and instances."""
    request = host_svc_pb2.QueryHostsRequest()
    infos = harness.client.host_svc.QueryHosts(request, timeout=SECONDS).host_infos
    return [(each.job_id, each.instances) for info in infos if info.hostname == host for each in info.held]


def test_others_are_told_for_whom_a_host_is_held_and_a_second_update_keeps_it(harness: Harness) -> None:
    """The first one asks for more than its host has beside another job, and waits for it."""
    service = ServiceJob(harness, 1, big)
    service.await_states(pod_pb2.POD_STATE_RUNNING)
    host = service.list()[0].status.host
    beside = waiter(harness, host, 0.5, 600)
    harness.running(beside)
    replaced(service, 3.9)
    wait_for(lambda: held_on(harness, host) == [(service.id.value, "0")], 60)
    other = waiter(harness, host, 3, 1)
    told = f"1 host held for instance 0 of {service.id.value} until "
    request = explain_pb2.ExplainTaskRequest(instance=0)
    request.job_id.value = other

    def explained() -> str:
        try:
            return str(harness.client.explain_svc.ExplainTask(request, timeout=SECONDS))
        except grpc.RpcError as error:
            return str(error)  # it is not enqueued yet

    wait_for(lambda: told in explained(), 60, explained)
    wait_for(lambda: told in harness.tasks(other)[0].runtime.reason, 60, explained)

    replaced(service, 3)
    service.await_states(pod_pb2.POD_STATE_RUNNING)
    assert service.list()[0].status.host == host, "it came back before the other one got its room"
    assert held_on(harness, host) == []

    replaced(service, 3.9)
    wait_for(lambda: held_on(harness, host) != [], 60)
    version = service.get().job_info.status.version
    service.jobs.StopJob(jobs_pb.StopJobRequest(job_id=service.id, version=version), timeout=SECONDS)
    assert harness.ended(other, 60).state == job_pb2.SUCCEEDED
    assert held_on(harness, host) == []
    stop = task_pb2.StopRequest()
    stop.jobId.value = beside
    harness.client.task_svc.Stop(stop, timeout=SECONDS)

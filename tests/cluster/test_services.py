"""A v1alpha service on a whole cluster: created, got back as given, listed, steered, stopped and deleted."""

from __future__ import annotations

import grpc
import pytest

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pods_pb
from peloton.cli.__main__ import main
from peloton.private.jobmgrsvc import jobmgrsvc_pb2
from peloton.wire.v1alpha.duplicate_fields import filled_job

from .conftest import Harness, wait_for
from .service_job import SECONDS, ServiceJob

RUNNING, KILLED = pod_pb2.POD_STATE_RUNNING, pod_pb2.POD_STATE_KILLED


def test_a_service_from_create_to_delete(harness: Harness) -> None:
    service = ServiceJob(harness, 3)
    service.await_states(RUNNING, RUNNING, RUNNING)
    got = service.get().job_info
    got.spec.ClearField("revision")
    assert got.spec == filled_job(service.spec)
    assert dict(got.status.pod_stats) == {"POD_STATE_RUNNING": 3}
    assert [pod.pod_name for pod in service.list()] == [service.name(i) for i in range(3)]

    v0 = job_pb2.GetRequest(id=v0_peloton.JobID(value=service.id.value))
    seen = harness.client.job_svc.Get(v0, timeout=SECONDS).jobInfo
    assert (seen.config.type, seen.runtime.state) == (job_pb2.SERVICE, job_pb2.RUNNING)

    stopped = service.jobs.StopJob(
        jobs_pb.StopJobRequest(job_id=service.id, version=service.get().job_info.status.version),
        timeout=SECONDS,
    )
    service.await_states(KILLED, KILLED, KILLED)
    wait_for(
        lambda: service.get().job_info.status.state == stateless_pb2.JOB_STATE_KILLED,
        SECONDS,
        lambda: str(service.get().job_info.status),
    )
    with pytest.raises(grpc.RpcError) as stale:
        service.jobs.DeleteJob(
            jobs_pb.DeleteJobRequest(job_id=service.id, version=service.version), timeout=SECONDS
        )
    assert stale.value.code() is grpc.StatusCode.ABORTED
    assert stale.value.details() == "unexpected entity version"
    delete = jobs_pb.DeleteJobRequest(job_id=service.id, version=stopped.version)
    service.jobs.DeleteJob(delete, timeout=SECONDS)
    wait_for(lambda: gone(service), SECONDS, lambda: str(service.get().job_info.status))


def gone(service: ServiceJob) -> bool:
    """Return whether the job is not found. A deletion goes on after its answer."""
    try:
        service.get()
    except grpc.RpcError as error:
        return bool(error.code() is grpc.StatusCode.NOT_FOUND)
    return False


def test_single_pods(harness: Harness) -> None:
    service = ServiceJob(harness, 2)
    service.await_states(RUNNING, RUNNING)
    service.pods.StopPod(pods_pb.StopPodRequest(pod_name=service.name(1)), timeout=SECONDS)
    service.await_states(RUNNING, KILLED)
    service.pods.StartPod(pods_pb.StartPodRequest(pod_name=service.name(1)), timeout=SECONDS)
    service.await_states(RUNNING, RUNNING)
    assert [service.run(i) for i in range(2)] == [1, 2]
    service.pods.RestartPod(pods_pb.RestartPodRequest(pod_name=service.name(0)), timeout=SECONDS)
    wait_for(lambda: service.run(0) == 2, SECONDS, lambda: str(service.list()))
    service.await_states(RUNNING, RUNNING)
    pod = service.pods.GetPod(pods_pb.GetPodRequest(pod_name=service.name(0), limit=5), timeout=SECONDS)
    assert [each.status.pod_id.value for each in pod.previous] == [f"{service.name(0).value}-1"]
    sandbox = service.pods.BrowsePodSandbox(
        pods_pb.BrowsePodSandboxRequest(pod_name=service.name(0)), timeout=SECONDS
    )
    assert any(path.endswith("/stdout") for path in sandbox.paths)
    version = service.get().job_info.status.version
    force = jobs_pb.DeleteJobRequest(job_id=service.id, version=version, force=True)
    service.jobs.DeleteJob(force, timeout=SECONDS)


def test_restarts_within_the_sla(harness: Harness) -> None:
    """One pod of two may be down."""
    service = ServiceJob(harness, 2, lambda spec: setattr(spec.sla, "maximum_unavailable_instances", 1))
    service.await_states(RUNNING, RUNNING)
    first, second = (pods_pb.RestartPodRequest(pod_name=service.name(i), check_sla=True) for i in range(2))
    service.pods.RestartPod(first, timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as refused:
        service.pods.RestartPod(second, timeout=SECONDS)
    assert refused.value.code() is grpc.StatusCode.ABORTED
    wait_for(lambda: service.run(0) == 2, SECONDS, lambda: str(service.list()))
    service.await_states(RUNNING, RUNNING)
    service.pods.RestartPod(second, timeout=SECONDS)
    wait_for(lambda: service.run(1) == 2, SECONDS, lambda: str(service.list()))
    service.await_states(RUNNING, RUNNING)
    pod = service.pods.GetPod(pods_pb.GetPodRequest(pod_name=service.name(0), limit=5), timeout=SECONDS)
    end = pod.previous[0].status.containers_status[0].terminationStatus
    assert end.reason == pod_pb2.TerminationStatus.TERMINATION_STATUS_REASON_KILLED_FOR_SLA_AWARE_RESTART
    private = harness.client.jobmgr_private_svc
    classes = private.GetInstanceAvailabilityInfoForJob(
        jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobRequest(job_id=service.id), timeout=SECONDS
    )
    assert dict(classes.instance_availability_map) == {0: "AVAILABLE", 1: "AVAILABLE"}
    version = service.get().job_info.status.version
    force = jobs_pb.DeleteJobRequest(job_id=service.id, version=version, force=True)
    service.jobs.DeleteJob(force, timeout=SECONDS)


def test_a_pod_that_fails_is_throttled(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def printed(*command: str) -> str:
        capfd.readouterr()
        assert main(["jobmgr", *command]) == 0
        return capfd.readouterr().out

    def failing(spec: stateless_pb2.JobSpec) -> None:
        spec.default_spec.containers[0].entrypoint.value = "exit 3"

    service = ServiceJob(harness, 1, failing)

    def throttled() -> list[str]:
        answer = harness.client.jobmgr_private_svc.GetThrottledPods(
            jobmgrsvc_pb2.GetThrottledPodsRequest(), timeout=SECONDS
        )
        return [pod.value for pod in answer.throttled_pods]

    wait_for(lambda: service.name(0).value in throttled(), 90, lambda: str(service.list()))
    assert service.name(0).value in printed("throttled-pods").split()
    assert f"{service.id.value}  web" in printed("query-job-cache", "--name", "w?b")
    assert printed("instance-availability", service.id.value, "-i", "0,1").splitlines()[1:] == [
        "0         UNAVAILABLE",
        "1         INVALID",
    ]
    held = harness.client.jobmgr_private_svc.GetJobCache(
        jobmgrsvc_pb2.GetJobCacheRequest(job_id=service.id), timeout=SECONDS
    )
    assert held.spec.name == "web"
    service.pods.StopPod(pods_pb.StopPodRequest(pod_name=service.name(0)), timeout=SECONDS)
    assert service.name(0).value not in throttled()
    version = service.get().job_info.status.version
    force = jobs_pb.DeleteJobRequest(job_id=service.id, version=version, force=True)
    service.jobs.DeleteJob(force, timeout=SECONDS)

"""Jobs that are moved from the cluster without a name to another one, and back; for any kind of cluster."""

from __future__ import annotations

import time

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.private.jobmgr.moving import moving_pb2
from tests.cluster.conftest import Harness, wait_for
from tests.cluster.service_job import ServiceJob

SECONDS = 120
SLEEP = "exec sleep 600"
Request = moving_pb2.MoveJobRequest


def move(harness: Harness, job_id: str, request: Request) -> moving_pb2.MoveJobResponse:
    request.job_id.value = job_id
    answer: moving_pb2.MoveJobResponse = harness.client.moving_svc.MoveJob(request, timeout=SECONDS)
    return answer


def batch_goes_by_its_next_runs(harness: Harness, cluster: str, cores: int) -> None:
    """Fill the cluster without a name: what runs there stays, what waits begins in the other one."""
    config = harness.config(SLEEP, cores + 2)
    config.defaultConfig.resource.cpuLimit = 1
    job_id = harness.create(config)
    first = move(harness, job_id, Request(unnamed=True))
    assert first.changed

    def hosts(state: int) -> list[str]:
        return [t.runtime.host for t in harness.tasks(job_id).values() if t.runtime.state == state]

    def full() -> bool:
        # Some may have been placed in the other cluster before the move: they stay there.
        there = sum(host.startswith(f"{cluster}/") for host in hosts(task_pb2.RUNNING))
        waits = len(hosts(task_pb2.PENDING))
        return len(hosts(task_pb2.RUNNING)) + waits == cores + 2 and waits == max(2 - there, 0)

    wait_for(full, SECONDS, lambda: str(harness.tasks(job_id)))
    before = {i: t.runtime for i, t in harness.tasks(job_id).items() if t.runtime.state == task_pb2.RUNNING}
    waiting = cores + 2 - len(before)
    answer = move(harness, job_id, Request(cluster=cluster))
    assert answer.begun_anew == waiting
    for instance in range(cores + 2):
        now = harness.running(job_id, instance)
        if instance in before:
            assert now.mesosTaskId.value == before[instance].mesosTaskId.value
        else:
            assert now.host.startswith(f"{cluster}/")
    again = move(harness, job_id, Request(cluster=cluster))
    assert not again.changed and again.staying == len(before)
    request = task_pb2.RestartRequest(jobId=peloton_pb2.JobID(value=job_id))
    harness.client.task_svc.Restart(request, timeout=SECONDS)

    def some_there() -> bool:
        runs = [t.runtime for t in harness.tasks(job_id).values()]
        return sum(r.host.startswith(f"{cluster}/") and r.state == task_pb2.RUNNING for r in runs) > waiting

    wait_for(some_there, SECONDS, lambda: str(harness.tasks(job_id)))
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=SECONDS)
    assert harness.ended(job_id, SECONDS).state == job_pb2.KILLED


def service_goes_batch_by_batch_and_back(harness: Harness, cluster: str) -> None:
    """Move it with pause and resume; never more instances are down than its SLA allows."""

    def within_sla(spec: stateless_pb2.JobSpec) -> None:
        spec.sla.maximum_unavailable_instances = 1

    job = ServiceJob(harness, 4, within_sla)
    job.await_states(*[pod_pb2.POD_STATE_RUNNING] * 4)
    _move_whole(harness, job, Request(unnamed=True), "")
    answer = move(harness, job.id.value, Request(cluster=cluster, start_paused=True))
    assert (answer.changed, answer.batch_size) == (True, 1)
    time.sleep(1)  # for a move that does not keep to its pause to go on
    assert not _there(job, cluster)
    resumed = harness.client.stateless_svc.ResumeJobWorkflow(
        jobs_pb.ResumeJobWorkflowRequest(job_id=job.id, version=answer.version), timeout=SECONDS
    )
    assert resumed.version.value
    _until_moved(job, cluster)
    _move_whole(harness, job, Request(unnamed=True), "")
    job.jobs.StopJob(
        jobs_pb.StopJobRequest(job_id=job.id, version=job.get().job_info.status.version), timeout=SECONDS
    )


def _move_whole(harness: Harness, job: ServiceJob, request: Request, cluster: str) -> None:
    wait_for(lambda: _ended(job), SECONDS, lambda: str(job.get()))
    assert move(harness, job.id.value, request).changed
    _until_moved(job, cluster)


def _ended(job: ServiceJob) -> bool:
    return job.get().workflow_info.status.state == stateless_pb2.WORKFLOW_STATE_SUCCEEDED


def _there(job: ServiceJob, cluster: str) -> int:
    """Return how many pods run in a cluster; empty: in the one without a name."""
    prefix = f"{cluster}/" if cluster else ""
    hosts = [pod.status.host for pod in job.list() if pod.status.state == pod_pb2.POD_STATE_RUNNING]
    return sum(host.startswith(prefix) and ("/" in host) == bool(cluster) for host in hosts)


def _until_moved(job: ServiceJob, cluster: str) -> None:
    fewest = 4

    def moved() -> bool:
        nonlocal fewest
        states = [pod.status.state for pod in job.list()]
        fewest = min(fewest, states.count(pod_pb2.POD_STATE_RUNNING))
        return _there(job, cluster) == 4 and _ended(job)

    wait_for(moved, SECONDS, lambda: str(job.list()))
    assert fewest >= 3

"""Updates, restarts and scaling of a service of 100 instances, also while jobmgr is killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2

from .conftest import Harness, wait_for
from .service_job import SECONDS, ServiceJob

AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Statuses of calls while no jobmgr leads."""
INSTANCES, BATCH, TOLERATED = 100, 10, 3
WORKFLOW_SECONDS = 120
SUCCEEDED = stateless_pb2.WORKFLOW_STATE_SUCCEEDED
ROLLED_BACK = stateless_pb2.WORKFLOW_STATE_ROLLED_BACK
ENDED = {
    SUCCEEDED,
    ROLLED_BACK,
    stateless_pb2.WORKFLOW_STATE_FAILED,
    stateless_pb2.WORKFLOW_STATE_ABORTED,
}


@pytest.fixture(scope="module")
def service(harness: Harness) -> ServiceJob:
    """100 instances that run."""
    service = ServiceJob(harness, INSTANCES, checked)
    wait_for(
        lambda: running(service) == INSTANCES, WORKFLOW_SECONDS, lambda: str(service.get().job_info.status)
    )
    return service


def checked(spec: stateless_pb2.JobSpec) -> None:
    """Make it small, with a health check: what exits at once has not been up."""
    container = spec.default_spec.containers[0]
    container.resource.cpu_limit = 0.05
    liveness = container.liveness_check
    liveness.enabled, liveness.type = True, pod_pb2.HealthCheckSpec.HEALTH_CHECK_TYPE_COMMAND
    liveness.command_check.command = "true"


def running(service: ServiceJob) -> int:
    """The number of pods that run."""
    return int(service.get().job_info.status.pod_stats["POD_STATE_RUNNING"])


def version(service: ServiceJob) -> str:
    return str(service.get().job_info.status.version.value)


def replace(service: ServiceJob, change: Callable[[stateless_pb2.JobSpec], None], batch: int = BATCH) -> None:
    """Begin an update."""
    spec = stateless_pb2.JobSpec()
    spec.CopyFrom(service.get().job_info.spec)
    change(spec)
    update = stateless_pb2.UpdateSpec(
        batch_size=batch,
        rollback_on_failure=True,
        max_instance_retries=1,
        max_tolerable_instance_failures=TOLERATED,
    )
    request = jobs_pb.ReplaceJobRequest(job_id=service.id, spec=spec, update_spec=update)
    request.version.value = version(service)
    service.jobs.ReplaceJob(request, timeout=SECONDS)


def restart(service: ServiceJob) -> None:
    request = jobs_pb.RestartJobRequest(
        job_id=service.id, restart_spec=stateless_pb2.RestartSpec(batch_size=BATCH)
    )
    request.version.value = version(service)
    service.jobs.RestartJob(request, timeout=SECONDS)


def command(text: str) -> Callable[[stateless_pb2.JobSpec], None]:
    def change(spec: stateless_pb2.JobSpec) -> None:
        container = spec.default_spec.containers[0]
        container.ClearField("command")
        container.entrypoint.value = text

    return change


def instances(count: int) -> Callable[[stateless_pb2.JobSpec], None]:
    def change(spec: stateless_pb2.JobSpec) -> None:
        spec.instance_count = count

    return change


def ended(service: ServiceJob) -> int:
    """Wait for the end of the last workflow; return its state. jobmgr may be away for a while."""
    states = [0]

    def over() -> bool:
        try:
            states[0] = service.get().workflow_info.status.state
        except grpc.RpcError as error:
            if error.code() not in AWAY:
                raise
        return states[0] in ENDED

    wait_for(over, WORKFLOW_SECONDS, lambda: str(service.get().workflow_info.status))
    return states[0]


def await_progress(service: ServiceJob) -> None:
    """Wait until the last workflow is done with further instances, or is over."""
    before: list[int] = []

    def moved() -> bool:
        try:
            status = service.get().workflow_info.status
        except grpc.RpcError as error:
            if error.code() not in AWAY:
                raise
            return False
        done = status.num_instances_completed + status.num_instances_failed
        before[:] = before or [done]
        return done > before[0] or status.state in ENDED

    wait_for(moved, WORKFLOW_SECONDS, lambda: str(service.get().workflow_info.status))


@contextmanager
def fewest(service: ServiceJob) -> Iterator[list[int]]:
    """Watch how many pods run; the list holds the smallest number that was seen."""
    least, stop = [INSTANCES * 2], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            try:
                least[0] = min(least[0], running(service))
            except grpc.RpcError:
                continue  # jobmgr is away

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield least
    finally:
        stop.set()
        thread.join()


def entrypoints(service: ServiceJob) -> str:
    return str(service.get().job_info.spec.default_spec.containers[0].entrypoint.value)


def kill_jobmgr(harness: Harness) -> None:
    harness.cluster.kill(["jobmgr0"])
    harness.cluster.start(["jobmgr0"])


@pytest.mark.parametrize("kills", [0, 2])
def test_a_service_is_updated_restarted_and_scaled(harness: Harness, service: ServiceJob, kills: int) -> None:
    def disturb() -> None:
        for _ in range(kills):
            await_progress(service)
            kill_jobmgr(harness)

    good = f"echo good {kills}; sleep 600"
    before = entrypoints(service)
    with fewest(service) as least:
        replace(service, command("echo bad; exit 1"))
        disturb()
        assert ended(service) == ROLLED_BACK
        wait_for(lambda: running(service) == INSTANCES, SECONDS, lambda: str(service.get().job_info.status))
        assert entrypoints(service) == before
    # Those that failed are down too, and no longer in flight.
    assert INSTANCES - BATCH - TOLERATED <= least[0] < INSTANCES, least

    with fewest(service) as least:
        replace(service, command(good))
        disturb()
        assert ended(service) == SUCCEEDED
        assert entrypoints(service) == good

        runs = [service.run(0)]
        restart(service)
        disturb()
        assert ended(service) == SUCCEEDED
        assert service.run(0) == runs[0] + 1

        replace(service, instances(150), batch=0)
        disturb()
        assert ended(service) == SUCCEEDED
    assert INSTANCES - BATCH <= least[0] < INSTANCES, least
    with fewest(service) as least:
        replace(service, instances(50), batch=0)
        assert ended(service) == SUCCEEDED
        wait_for(lambda: running(service) == 50, SECONDS, lambda: str(service.get().job_info.status))
    assert least[0] == 50
    replace(service, instances(INSTANCES), batch=0)
    assert ended(service) == SUCCEEDED
    wait_for(lambda: running(service) == INSTANCES, SECONDS, lambda: str(service.get().job_info.status))

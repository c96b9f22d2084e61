"""Jobs through all four daemons on Kubernetes, with the small API server for tests."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.private.problems.problems_pb2 import ListProblemsRequest
from tests.cluster.conftest import Harness, harness_of, wait_for
from tests.cluster.kubernetes_jobs import *  # noqa: F403 - its tests are those of this module
from tests.contract.backend.systems import write_kubeconfig
from tests.servers.api_server import ApiServer

pytestmark = pytest.mark.long


SECONDS = 60
BUDGET = "The disruption budget web needs 1 healthy pods and has 1 currently"


@pytest.fixture(scope="module")
def api() -> Iterator[ApiServer]:
    with ApiServer("peloton").running() as it:
        yield it


@pytest.fixture(scope="module")
def harness(api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    kubeconfig = tmp_path_factory.mktemp("api") / "kubeconfig"
    write_kubeconfig(kubeconfig, api.url)
    with harness_of(tmp_path_factory, kubernetes=str(kubeconfig), kubelets=True) as held:
        yield held


def problems(harness: Harness) -> list[str]:
    """Return what hostmgr tells of evictions."""
    answer = harness.client.hostmgr_problem_svc.ListProblems(ListProblemsRequest(), timeout=SECONDS)
    return [each.text for each in answer.problems if "in maintenance" in each.text]


def drained(harness: Harness, api: ApiServer) -> tuple[str, str]:
    """Begin the maintenance of the host of a service, which a budget keeps; return the job and the host."""
    job = harness.create(harness.config("sleep 1000", type=job_pb2.SERVICE))
    before = harness.running(job)
    api.budgets["*"] = BUDGET
    request = host_svc_pb2.StartMaintenanceRequest(hostname=before.host)
    harness.client.host_svc.StartMaintenance(request, timeout=SECONDS)
    wait_for(lambda: bool(problems(harness)), SECONDS, lambda: str(harness.tasks(job)))
    (text,) = problems(harness)
    assert text.startswith(f"{job}-0 stays on {before.host}") and text.endswith(BUDGET)
    assert ("pods", "peloton", before.mesosTaskId.value) in api.objects
    assert harness.tasks(job)[0].runtime.state == task_pb2.KILLING
    return job, before.host


def complete(harness: Harness, host: str) -> None:
    def done() -> bool:
        try:
            request = host_svc_pb2.CompleteMaintenanceRequest(hostname=host)
            harness.client.host_svc.CompleteMaintenance(request, timeout=SECONDS)
        except grpc.RpcError:  # it is not drained yet
            return False
        return True

    wait_for(done, SECONDS)


def test_a_drain_waits_until_a_budget_allows_it(harness: Harness, api: ApiServer) -> None:
    job, host = drained(harness, api)
    api.budgets.clear()
    wait_for(lambda: harness.tasks(job)[0].runtime.state == task_pb2.RUNNING, SECONDS)
    assert harness.running(job).host != host and not problems(harness)
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job)), timeout=SECONDS)
    complete(harness, host)


def test_a_stop_ends_at_once_what_a_budget_keeps(harness: Harness, api: ApiServer) -> None:
    job, host = drained(harness, api)
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(request, timeout=SECONDS)
    wait_for(lambda: harness.tasks(job)[0].runtime.state == task_pb2.KILLED, SECONDS)
    assert api.budgets and not problems(harness)
    api.budgets.clear()
    complete(harness, host)

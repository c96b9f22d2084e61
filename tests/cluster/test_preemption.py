"""Two pools on one cluster: what one borrowed goes back to the other when that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minicluster.settings import DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, harness_of, wait_for

SECONDS = 60
FOREVER = "sleep 600"
PREEMPTED = task_pb2.TerminationStatus.TERMINATION_STATUS_REASON_PREEMPTED_RESOURCES


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Twelve cpus, all reserved for the pool /test; checks come quickly."""
    quick = {"preemption": {"period": 0.5, "strikes": 2}}
    with harness_of(tmp_path_factory, settings=DaemonSettings(resmgr=quick)) as held:
        yield held


def borrower(harness: Harness) -> str:
    """A pool without reservation."""
    config = respool_pb2.ResourcePoolConfig(
        name="borrower",
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[
            respool_pb2.ResourceConfig(kind=kind, limit=1e6, share=1) for kind in ("cpu", "memory", "disk")
        ],
    )
    answer = harness.client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=config), timeout=SECONDS
    )
    assert not answer.HasField("error"), answer
    return str(answer.result.value)


def job(harness: Harness, instances: int, pool: str = "", kill_on_preempt: bool = False) -> str:
    """Tasks of two cpus."""
    config = harness.config(FOREVER, instances)
    config.defaultConfig.resource.cpuLimit = 2
    config.defaultConfig.preemptionPolicy.killOnPreempt = kill_on_preempt
    if pool:
        config.respoolID.value = pool
    return harness.create(config)


def states(harness: Harness, job_id: str) -> list[str]:
    return sorted(task_pb2.TaskState.Name(task.runtime.state) for task in harness.tasks(job_id).values())


def await_states(harness: Harness, job_id: str, *wanted: str) -> None:
    wait_for(lambda: states(harness, job_id) == sorted(wanted), SECONDS, lambda: str(harness.tasks(job_id)))


def test_a_pool_reclaims_borrowed_resources(harness: Harness) -> None:
    pool = borrower(harness)
    keeps = job(harness, 4, pool)
    await_states(harness, keeps, *["RUNNING"] * 4)
    ends = job(harness, 2, pool, kill_on_preempt=True)
    await_states(harness, ends, *["RUNNING"] * 2)

    lender = job(harness, 4)
    await_states(harness, lender, *["RUNNING"] * 4)
    await_states(harness, ends, "KILLED", "KILLED")
    await_states(harness, keeps, "PENDING", "PENDING", "RUNNING", "RUNNING")
    for task in harness.tasks(ends).values():
        assert task.runtime.terminationStatus.reason == PREEMPTED
        assert "preempted: /borrower was over its entitlement in 2 checks" in task.runtime.message
    again = [task for task in harness.tasks(keeps).values() if task.runtime.state == task_pb2.PENDING]
    for task in again:
        assert task.runtime.mesosTaskId.value.endswith("-2")
        assert task.runtime.failureCount == 0
        assert "/test waits for its share" in task.runtime.message

    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=lender)), timeout=SECONDS)
    assert harness.ended(lender).state == job_pb2.KILLED
    await_states(harness, keeps, *["RUNNING"] * 4)

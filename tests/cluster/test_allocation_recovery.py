"""A resource manager that is killed comes back with the same allocation of every pool, to the last unit."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minicluster.settings import Agent, DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, harness_of, wait_for

SLEEP = "sleep 600"
FIT, WAIT = 3, 9
"""Tasks that the small pool has room for, and those that wait there."""
GAUGES = frozenset({"resmgr_pool_allocation", "resmgr_pool_slack_allocation", "resmgr_pool_demand"})
Usage = dict[tuple[str, str], tuple[float, float]]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    agents = tuple(
        Agent(
            hostname=f"recovery{i}",
            resources=f"cpus:4;mem:2048;disk:20000;ports:[{37000 + 1000 * i}-{37999 + 1000 * i}]",
            revocable="cpus:2",
        )
        for i in range(3)
    )
    settings = DaemonSettings(resmgr={"metrics_interval": 0.2})
    with harness_of(tmp_path_factory, agents=agents, settings=settings) as held:
        yield held


def make_small_pool(harness: Harness) -> str:
    """Two levels below the root, with room for FIT cpus."""
    parent = "root"
    for name in ("outer", "inner"):
        kinds = {"cpu": FIT + 0.5, "memory": 1024, "disk": 1000, "gpu": 0}
        config = respool_pb2.ResourcePoolConfig(
            name=name,
            parent=peloton_pb2.ResourcePoolID(value=parent),
            resources=[
                respool_pb2.ResourceConfig(kind=kind, limit=limit, share=1) for kind, limit in kinds.items()
            ],
        )
        request = respool_pb2.CreateRequest(config=config)
        answer = harness.client.respool_svc.CreateResourcePool(request, timeout=30)
        assert not answer.HasField("error"), answer.error
        parent = answer.result.value
    return parent


def job(
    harness: Harness, instances: int, cpu: float, memory: float, sla: job_pb2.SlaConfig
) -> job_pb2.JobConfig:
    config = harness.config(SLEEP, instances)
    config.sla.CopyFrom(sla)
    config.defaultConfig.resource.cpuLimit = cpu
    config.defaultConfig.resource.memLimitMb = memory
    return config


def count_running(harness: Harness, job_id: str) -> int:
    return sum(each.runtime.state == task_pb2.RUNNING for each in harness.tasks(job_id).values())


def usage(harness: Harness) -> Usage:
    """What Query says of each pool and kind: not slack, slack."""
    answer = harness.client.respool_svc.Query(respool_pb2.QueryRequest(), timeout=60)
    return {
        (pool.path.value, each.kind): (each.allocation, each.slack)
        for pool in answer.resourcePools
        for each in pool.usage
    }


def gauges(harness: Harness) -> dict[tuple[str, ...], float]:
    """Allocation and what is queued, by pool and kind."""
    resmgr = next(part for part in harness.cluster.components() if part.name == "resmgr0")
    with urllib.request.urlopen(f"http://{resmgr.addresses['http']}/metrics", timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        (sample.name, sample.labels["pool"], sample.labels["kind"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name in GAUGES
    }


def test_a_restarted_resmgr_recovers_all_allocations(harness: Harness) -> None:
    sla = job_pb2.SlaConfig
    configs = [
        (job(harness, 7, 0.137, 33.301, sla(preemptible=True)), 7),
        (job(harness, 2, 0.3, 40, sla()), 2),
        (job(harness, 3, 0.211, 32.007, sla(preemptible=True, minimumRunningInstances=3)), 3),
        (job(harness, 4, 0.503, 35.5, sla(preemptible=True, revocable=True)), 4),
        (job(harness, FIT + WAIT, 1, 32.1, sla(preemptible=True)), FIT),
    ]
    configs[-1][0].respoolID.value = make_small_pool(harness)
    jobs = {harness.create(config): running for config, running in configs}

    def steady() -> bool:
        return all(count_running(harness, job_id) == running for job_id, running in jobs.items())

    wait_for(steady, 90, lambda: str({job_id: harness.waiting(job_id) for job_id in jobs}))
    before = usage(harness)
    assert before["/test", "cpu"] == pytest.approx((7 * 0.137 + 2 * 0.3 + 3 * 0.211, 4 * 0.503), abs=1e-9)
    assert before["/outer/inner", "cpu"] == (FIT, 0)
    wait_for(lambda: gauges(harness)["resmgr_pool_demand", "/outer/inner", "cpu"] == WAIT, 60)
    measured = gauges(harness)
    runs = {
        job_id: {i: t.runtime.mesosTaskId.value for i, t in harness.tasks(job_id).items()} for job_id in jobs
    }
    for _ in range(2):
        harness.cluster.kill(["resmgr0"])
        harness.cluster.start(["resmgr0"])
        # It leads as soon as it knows its pools; what is on hosts follows before anything is admitted.
        wait_for(lambda: usage(harness) == before, 60, lambda: f"{usage(harness)}\n{before}")
        wait_for(lambda: gauges(harness) == measured, 60, lambda: f"{gauges(harness)}\n{measured}")
    assert steady()
    for job_id, known in runs.items():
        assert {i: t.runtime.mesosTaskId.value for i, t in harness.tasks(job_id).items()} == known
    for job_id in jobs:
        harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)
    wait_for(lambda: set(usage(harness).values()) == {(0, 0)}, 60, lambda: str(usage(harness)))

"""Pods of others while a fault strikes on a real API server: each is bound once, by one job, and runs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from tests.faults.fault import FaultContext
from tests.faults.testbed import POOL, until
from tests.faults.workload import Api, Workload
from tests.kubernetes.faults import FAULTS
from tests.kubernetes.testbed import KubernetesTestbed

TEAM = "team-a"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
SINGLE, GANGS, MEMBERS = 24, 3, 4
SECONDS = 120.0
LIVING = (job_pb2.RUNNING, job_pb2.PENDING, job_pb2.INITIALIZED)
STRIKING = (
    "lose-answers", "kill-api-server", "cut-watches", "cut-off", "slow-etcd", "kill-hostmgr", "stop-hostmgr",
    "kill-jobmgr",
)  # fmt: skip


class ForeignTestbed(KubernetesTestbed):
    """It takes pods of others."""

    foreign_pods = True


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesTestbed]:
    made = ForeignTestbed(tmp_path_factory.mktemp("faults") / "testbed", 1)
    made.up()
    try:
        made.call("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}})
        yield made
    finally:
        made.down()


def make(testbed: KubernetesTestbed, name: str, **annotations: str) -> str:
    """Create a pod that waits for Peloton; return its uid."""
    container: dict[str, Any] = {"name": "main", "image": "process", "command": ["sleep", "1000"]}
    container["resources"] = {"requests": {"cpu": "20m", "memory": "8Mi"}}
    spec = {"schedulerName": "peloton", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    given = {f"peloton/{key}": value for key, value in annotations.items()} | {"peloton/pool": f"/{POOL}"}
    body = {"metadata": {"name": name, "annotations": given}, "spec": {**spec, "containers": [container]}}
    return str(testbed.call("POST", PODS, body)["metadata"]["uid"])


def pods(testbed: KubernetesTestbed) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["uid"]: each for each in testbed.call("GET", PODS).get("items") or ()}


@pytest.mark.parametrize("name", STRIKING)
def test_no_pod_is_lost_or_bound_twice(testbed: KubernetesTestbed, name: str) -> None:
    """Also where a binding has its effect, and hostmgr does not learn of it."""
    draw = random.Random(name)
    made = {make(testbed, f"{name}-{number}") for number in range(SINGLE)}
    for gang in range(GANGS):
        for member in range(MEMBERS):
            size = {"gang": f"{name}-{gang}", "gang-size": str(MEMBERS)}
            made.add(make(testbed, f"{name}-{gang}-{member}", **size))
    time.sleep(draw.uniform(0, 0.5))
    workload = Workload(Api(testbed.client, testbed.pool), draw, testbed.folder, 1.0)
    FAULTS[name].strike(FaultContext(testbed, draw, True, workload))
    until(lambda: _running(testbed) == made, SECONDS, f"all {len(made)} pods run")
    runs = [each["metadata"]["annotations"]["peloton/run"] for each in pods(testbed).values()]
    assert len(set(runs)) == len(made), "each is a run of its own"
    jobs = {run[:36] for run in runs}
    assert len(jobs) == SINGLE + GANGS, "each pod alone and each gang is one job"
    until(lambda: set(_active(testbed)) == jobs, SECONDS, "no other job stands for them")
    for pod in pods(testbed).values():
        testbed.call("DELETE", f"{PODS}/{pod['metadata']['name']}")
    until(lambda: not pods(testbed) and not _active(testbed), SECONDS, "all have ended")


def _running(testbed: KubernetesTestbed) -> set[str]:
    return {uid for uid, pod in pods(testbed).items() if (pod.get("status") or {}).get("phase") == "Running"}


def _active(testbed: KubernetesTestbed) -> list[str]:
    spec = job_pb2.QuerySpec(owner=TEAM, jobStates=LIVING)
    spec.pagination.limit = spec.pagination.maxLimit = 1000
    answer = testbed.client.job_svc.Query(job_pb2.QueryRequest(spec=spec, summaryOnly=True), timeout=30)
    return [each.id.value for each in answer.results]

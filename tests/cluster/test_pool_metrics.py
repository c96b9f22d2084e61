"""The metrics of each pool, by name, on a running cluster."""

from __future__ import annotations

import urllib.request

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, wait_for

KINDS = {"cpu", "memory", "disk", "gpu"}
BY_KIND = ("allocation", "slack_allocation", "entitlement", "demand", "reservation", "limit")
QUEUES = {"non-preemptible", "controller", "revocable", "pending"}
WAITS = ("resmgr_pending_to_ready_seconds", "resmgr_pending_to_running_seconds")


def metrics(harness: Harness) -> dict[str, Metric]:
    found = {each.name: each.addresses for each in harness.cluster.status()}
    with urllib.request.urlopen(f"http://{found['resmgr0']['http']}/metrics", timeout=30) as answer:
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def of_pool(family: Metric, label: str) -> dict[str, float]:
    """Of the pool /test."""
    return {
        sample.labels[label]: sample.value
        for sample in family.samples
        if sample.labels.get("pool") == "/test"
    }


def test_each_pool_has_its_gauges_and_histograms(harness: Harness) -> None:
    fits = harness.create(harness.config("sleep 600", 2))
    beyond = harness.config("sleep 600", 3)  # a gang that takes the whole cluster, of which a part is taken
    beyond.sla.minimumRunningInstances = 3
    beyond.defaultConfig.resource.cpuLimit = 4
    waits = harness.create(beyond)

    def told() -> bool:
        found = metrics(harness)
        return (
            all(each.runtime.state == task_pb2.RUNNING for each in harness.tasks(fits).values())
            and of_pool(found["resmgr_pool_demand"], "kind").get("cpu") == 12
            and of_pool(found["resmgr_pool_allocation"], "kind").get("memory") == 64
        )

    wait_for(told, 60, lambda: str({name: each for name, each in metrics(harness).items() if "pool" in name}))
    found = metrics(harness)
    by_kind = {name: of_pool(found[f"resmgr_pool_{name}"], "kind") for name in BY_KIND}
    assert all(set(amounts) == KINDS for amounts in by_kind.values()), by_kind
    assert by_kind["allocation"] == {"cpu": 0.2, "memory": 64, "disk": 16, "gpu": 0}
    assert by_kind["demand"] == {"cpu": 12, "memory": 96, "disk": 24, "gpu": 0}
    assert by_kind["reservation"] == {"cpu": 12, "memory": 6144, "disk": 60000, "gpu": 0}
    assert by_kind["limit"] == dict.fromkeys(KINDS, 1e6)
    assert by_kind["entitlement"]["cpu"] >= 12
    pending = of_pool(found["resmgr_pool_pending"], "queue")
    assert set(pending) == QUEUES
    assert sum(pending.values()) == 1
    for name in WAITS:
        assert found[name].type == "histogram"
        [count] = [
            sample.value
            for sample in found[name].samples
            if sample.name.endswith("_count") and sample.labels == {"pool": "/test"}
        ]
        assert count >= 2
    for job_id in (fits, waits):
        harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job_id)), timeout=30)

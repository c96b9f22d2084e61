"""Hosts that were claimed for placements which a resource manager took with it when it was killed."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minicluster.settings import Agent, DaemonSettings
from peloton.api.v0.task import task_pb2

from .conftest import Harness, harness_of, wait_for
from .freezing import frozen


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    only = Agent(hostname="only", resources="cpus:12;mem:6144;disk:60000;ports:[37000-37999]")
    settings = DaemonSettings(resmgr={"metrics_interval": 0.1})
    with harness_of(tmp_path_factory, agents=(only,), settings=settings) as held:
        yield held


def gauge(harness: Harness, name: str) -> float:
    """Return the sum of a gauge of resmgr over its labels."""
    resmgr = next(part for part in harness.cluster.components() if part.name == "resmgr0")
    with urllib.request.urlopen(f"http://{resmgr.addresses['http']}/metrics", timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


def test_a_placement_that_died_with_resmgr_does_not_keep_its_host(harness: Harness) -> None:
    """The claim on the only host would last for 300 s; the new leader has it end in 15."""
    with frozen(harness.cluster, "placement0"):
        job = harness.create(harness.config("sleep 600"))
        admitted = ("resmgr_ready_gangs", "resmgr_leased_tasks")
        wait_for(lambda: sum(gauge(harness, name) for name in admitted) == 1, 60)
        harness.cluster.kill(["jobmgr0"])
    wait_for(lambda: gauge(harness, "resmgr_placements") == 1, 60)
    harness.cluster.kill(["resmgr0"])
    harness.cluster.start(["resmgr0", "jobmgr0"])
    wait_for(
        lambda: [task.runtime.state for task in harness.tasks(job).values()] == [task_pb2.RUNNING],
        120,
        lambda: str(harness.tasks(job)),
    )

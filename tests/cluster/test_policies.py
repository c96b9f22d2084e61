"""The example policies in real daemons, and in the simulator: gangs are tried in the same order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, DaemonSettings, Simulated
from peloton.api.v0.task import task_pb2
from simulator.cli import simulate
from tests.contract.policies.conftest import EXAMPLES, installed

from .conftest import Harness, wait_for

__all__ = ("installed",)
pytestmark = pytest.mark.extended
SECONDS = 20
"""For so long each task runs."""
CORES = 4
SIZES = (CORES, CORES, 2, 1)
"""Cores of the jobs in their order: the first one fills the cluster while the others come."""
RESMGR = {"entitlement_policy": "fixed_shares", "admission": {"queue_order": "smallest_first"}}
ENGINE = {"scorer": "alignment", "strategy": "packed"}


@pytest.fixture
def harness(tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """A cluster whose daemons find the entry points of the examples."""
    path = (str(installed), str(EXAMPLES), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    cluster = Cluster(tmp_path / "cluster")
    simulated = Simulated(agents=1, resources=f"cpus:{CORES};mem:8192;disk:20000", task_seconds=SECONDS)
    settings = DaemonSettings(resmgr=RESMGR, placement=ENGINE)
    cluster.up(ClusterSettings(ports="free", simulated=simulated, settings=settings))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


def order_in_daemons(harness: Harness) -> list[int]:
    """Return the jobs in the order in which their tasks start."""
    jobs = []
    for cores in SIZES:
        config = harness.config("true")
        config.defaultConfig.resource.cpuLimit = cores
        config.sla.preemptible = True
        jobs.append(harness.create(config))
        if len(jobs) == 1:
            wait_for(lambda: harness.tasks(jobs[0])[0].runtime.state == task_pb2.RUNNING, 60)
    others = [harness.tasks(job) for job in jobs[1:]]
    assert harness.tasks(jobs[0])[0].runtime.state == task_pb2.RUNNING, (
        f"all came within {SECONDS} s: {others}"
    )
    wait_for(lambda: all(harness.tasks(job)[0].runtime.startTime for job in jobs), 120)
    return sorted(range(len(jobs)), key=lambda at: harness.tasks(jobs[at])[0].runtime.startTime)


def order_in_simulator(folder: Path) -> list[int]:
    """Return the jobs of the same workload in the order in which they are launched."""
    (folder / "cluster.yaml").write_text(json.dumps({"hosts": [{"count": 1, "cpu": CORES, "memory": 8192}]}))
    jobs = [
        {
            "name": f"j{at}",
            "submit": at and 5 + at,
            "pool": "/x",
            "seconds": SECONDS,
            "cpu": cores,
            "memory": 32,
        }
        for at, cores in enumerate(SIZES)
    ]
    (folder / "jobs.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    options = []
    for name, settings in (("resmgr", RESMGR), ("placement", ENGINE)):
        (folder / f"{name}.yaml").write_text(json.dumps(settings))
        options += [f"--{name}", str(folder / f"{name}.yaml")]
    given = ["--trace", str(folder / "jobs.jsonl"), "--cluster", str(folder / "cluster.yaml")]
    ran = CliRunner().invoke(simulate, [*given, *options, "--decisions", str(folder / "decisions")])
    assert ran.exit_code == 0, ran.output
    lines = map(json.loads, (folder / "decisions").read_text().splitlines())
    return [int(line["run"][24:36], 16) - 1 for line in lines if line["what"] == "launch"]


def test_plugged_policies_decide_in_daemons_as_in_the_simulator(harness: Harness, tmp_path: Path) -> None:
    """As they come, the second job, which needs all cores, would start before the small ones."""
    simulated = order_in_simulator(tmp_path)
    assert simulated[0] == 0 and simulated[-1] == 1
    found = order_in_daemons(harness)
    assert (found[0], found[-1]) == (0, 1) and sorted(found) == sorted(simulated)

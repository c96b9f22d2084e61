"""The cores of real daemons, recorded while 1,000 jobs run, decide the same when they get the same again."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.components import Component
from minicluster.settings import ClusterSettings, DaemonSettings, Simulated
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from simulator.recording.cores import CORES, ENDING
from simulator.recording.replay import Replay, replay

from .conftest import TERMINAL, Harness, wait_for

pytestmark = pytest.mark.extended
JOBS = 1000
GANG = 3
STOPPED = range(900, 910)
"""Jobs that are stopped as soon as they are created."""
KILLS = {300: "resmgr0", 600: "jobmgr0", 800: "hostmgr0"}
"""Daemons that are killed and come back, by the job that is created next."""
SECONDS = 600


class RecordedCluster(Cluster):
    """Its daemons write journals of their cores."""

    @property
    def journals(self) -> Path:
        """Beside its folder, which is gone once it is down."""
        return self.directory.with_name("journals")

    def _command(self, part: Component) -> list[str]:
        if part.kind not in CORES:
            return super()._command(part)
        _, _, module, *arguments = super()._command(part)
        return [sys.executable, "-m", "simulator.recording", "record", str(self.journals), module, *arguments]


@pytest.fixture
def cluster(tmp_path: Path) -> RecordedCluster:
    return RecordedCluster(tmp_path / "cluster")


@pytest.fixture
def harness(cluster: RecordedCluster) -> Iterator[Harness]:
    often = DaemonSettings(resmgr={"preemption": {"period": 2}, "entitlement_interval": 2})
    simulated = Simulated(agents=20, resources="cpus:4;mem:8192;disk:20000", task_seconds=1)
    cluster.up(ClusterSettings(ports="free", simulated=simulated, settings=often))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


def job(harness: Harness, number: int) -> job_pb2.JobConfig:
    """Every tenth job is a gang, every seventh is not preemptible; resources and priorities differ."""
    gang = number % 10 == 0
    config = harness.config("true", GANG if gang else 1 + number % 2)
    config.defaultConfig.resource.cpuLimit = (0.5, 1.0, 2.0)[number % 3]
    config.sla.priority = number % 4
    config.sla.preemptible = number % 7 != 0
    if gang:
        config.sla.minimumRunningInstances = GANG
    return config


def change_pool(harness: Harness) -> None:
    """Reserve less, while jobs wait."""
    pool_id = peloton_pb2.ResourcePoolID(value=harness.pool)
    held = harness.client.respool_svc.GetResourcePool(respool_pb2.GetRequest(id=pool_id)).poolinfo.config
    for kind in held.resources:
        kind.reservation /= 2
    answer = harness.client.respool_svc.UpdateResourcePool(respool_pb2.UpdateRequest(id=pool_id, config=held))
    assert not answer.HasField("error"), answer.error


def replays(folder: Path) -> list[Replay]:
    found = [replay(path) for path in sorted(folder.glob(f"*{ENDING}"))]
    for each in found:
        assert each.difference is None, f"{each.core}: {each.difference}"
    return found


def decided(found: list[Replay], core: str, what: str) -> int:
    return sum((each.decided for each in found if each.core == core), Counter())[what]


def test_the_same_inputs_make_the_same_decisions(cluster: RecordedCluster, harness: Harness) -> None:
    jobs = []
    for number in range(JOBS):
        if number in KILLS:
            harness.cluster.kill([KILLS[number]])
            harness.cluster.start([KILLS[number]])
        jobs.append(harness.create(job(harness, number)))
        if number in STOPPED:
            stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=jobs[-1]))
            assert not harness.client.task_svc.Stop(stop, timeout=30).HasField("error")
        if number == JOBS // 2:
            change_pool(harness)
    left = set(jobs)

    def all_ended() -> bool:
        left.difference_update([each for each in left if harness.runtime(each).state in TERMINAL])
        return not left

    wait_for(all_ended, SECONDS, lambda: f"{len(left)} jobs have not ended, such as {sorted(left)[:3]}")
    cluster.down()
    found = replays(cluster.journals)
    assert {each.core for each in found} == set(CORES)
    assert sum(each.states for each in found) > 0
    runs = JOBS - len(STOPPED)
    assert decided(found, "resmgr", "Gang") >= runs and decided(found, "jobmgr", "Retire") >= JOBS
    assert decided(found, "hostmgr", "LaunchPlan") > 0 and decided(found, "hostmgr", "Acquired") > 0
    assert decided(found, "jobmgr", "Launch") > 0 and decided(found, "placement", "Report") > 0

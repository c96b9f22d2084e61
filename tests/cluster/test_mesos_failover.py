"""Two Mesos masters, of which the leading one dies: its tasks run on, and none runs twice."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.minicluster.cluster import Cluster
from peloton.minicluster.settings import ClusterSettings
from tests.servers.zookeeper import ZooKeeperServer

from .conftest import Harness, wait_for

TASKS = 6


@pytest.fixture
def harness(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Harness]:
    cluster = Cluster(tmp_path / "cluster")
    settings = ClusterSettings(
        ports="free",
        membership=f"zookeeper={zookeeper.address}",
        mesos_masters=2,
        master_flags=("--zk-session-timeout=2",),
    )
    cluster.up(settings)
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


def leading_master(cluster: Cluster) -> str | None:
    """As the masters that live say; None while they know of none, or of one that is dead."""
    masters = {part.name: part for part in cluster.components() if part.kind == "mesos-master"}
    living = [each.name for each in cluster.status() if each.name in masters and each.state == "running"]
    for name in living:
        try:
            with urllib.request.urlopen(
                f"http://{masters[name].addresses['http']}/state", timeout=5
            ) as answer:
                port = int(json.load(answer)["leader_info"]["port"])
        except OSError:
            continue
        return next((each for each in living if masters[each].http == port), None)
    return None


def fail_over(cluster: Cluster) -> None:
    """Kill the master that leads; once another does, the killed one comes back behind it."""
    dead = leading_master(cluster)
    assert dead is not None
    cluster.kill([dead])
    wait_for(lambda: leading_master(cluster) not in (None, dead), 30)
    cluster.start([dead])


def test_running_tasks_outlive_their_master(harness: Harness, tmp_path: Path) -> None:
    starts, go = tmp_path / "starts", tmp_path / "go"
    starts.mkdir()
    command = f"mktemp {starts}/$PELOTON_TASK_ID-XXXXXX && until [ -e {go} ]; do sleep 0.1; done"
    job = harness.create(harness.config(command, TASKS))
    for instance in range(TASKS):
        harness.running(job, instance)
    before = {instance: task.runtime.mesosTaskId.value for instance, task in harness.tasks(job).items()}
    for _ in range(2):  # there, and back to the first
        fail_over(harness.cluster)
    late = harness.create(harness.config("true", 2))
    assert harness.ended(late).state == job_pb2.SUCCEEDED, "the new master launches"
    states = {task.runtime.state for task in harness.tasks(job).values()}
    assert states == {task_pb2.RUNNING}
    go.touch()
    assert harness.ended(job).state == job_pb2.SUCCEEDED
    after = {instance: task.runtime.mesosTaskId.value for instance, task in harness.tasks(job).items()}
    assert after == before, "no run was taken for lost"
    assert len(list(starts.iterdir())) == TASKS, "and none was started twice"

"""Failover between two Mesos masters: tasks keep running, and none runs twice."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.mesos.agent.cleanup import kill_tasks
from minicluster.settings import ClusterSettings, DaemonSettings
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.servers.zookeeper import ZooKeeperServer

from .conftest import Harness, wait_for

TASKS = 6
SESSION_SECONDS = 5
"""More than a busy machine delays a master by: one that leads and loses its session ends, as Mesos's does."""
REREGISTER_SECONDS = 8
"""What an agent has to come back to a new master."""


@pytest.fixture(scope="module")
def harness(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    cluster = Cluster(tmp_path_factory.mktemp("failover") / "cluster")
    reconcile = {"agent_reregister": REREGISTER_SECONDS, "repeat_after": 2}
    settings = ClusterSettings(
        ports="free",
        membership=f"zookeeper={zookeeper.address}/{uuid.uuid4().hex}",
        mesos_masters=2,
        master_flags=(
            f"--zk-session-timeout={SESSION_SECONDS}",
            f"--agent-reregister-timeout={REREGISTER_SECONDS}",
        ),
        settings=DaemonSettings(hostmgr={"reconcile": reconcile}),
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
    wait_for(lambda: leading_master(cluster) is not None, 60, lambda: str(cluster.status()))
    dead = leading_master(cluster)
    assert dead is not None
    cluster.kill([dead])
    wait_for(lambda: leading_master(cluster) not in (None, dead), 60, lambda: str(cluster.status()))
    cluster.start([dead])


class Waiting:
    """A job whose tasks run until they are let go, and leave a file behind at each start."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        self._harness = harness
        self._starts, self._go = folder / "starts", folder / "go"
        self._starts.mkdir()
        command = (
            f"mktemp {self._starts}/$PELOTON_TASK_ID-XXXXXX && until [ -e {self._go} ]; do sleep 0.1; done"
        )
        self.job = harness.create(harness.config(command, TASKS))
        for instance in range(TASKS):
            harness.running(self.job, instance)

    def runs(self) -> dict[int, str]:
        return {number: task.runtime.mesosTaskId.value for number, task in self.tasks().items()}

    def tasks(self) -> dict[int, task_pb2.TaskInfo]:
        return self._harness.tasks(self.job)

    def starts(self) -> int:
        return len(list(self._starts.iterdir()))

    def end(self) -> None:
        self._go.touch()
        assert self._harness.ended(self.job).state == job_pb2.SUCCEEDED


def test_running_tasks_survive_a_master_failover(harness: Harness, tmp_path: Path) -> None:
    waiting = Waiting(harness, tmp_path)
    before = waiting.runs()
    for _ in range(2):  # there, and back to the first
        fail_over(harness.cluster)
    late = harness.create(harness.config("true", 2))
    assert harness.ended(late).state == job_pb2.SUCCEEDED, "the new master launches"
    assert {task.runtime.state for task in waiting.tasks().values()} == {task_pb2.RUNNING}
    waiting.end()
    assert waiting.runs() == before, "no run was taken for lost"
    assert waiting.starts() == TASKS, "and none was started twice"


def test_an_agent_lost_with_its_master_becomes_unreachable(harness: Harness, tmp_path: Path) -> None:
    """The agent goes with the master: the new one waits for it, then exactly its tasks run again."""
    waiting = Waiting(harness, tmp_path)
    before = waiting.runs()
    host = waiting.tasks()[0].runtime.host
    lost = {number for number, task in waiting.tasks().items() if task.runtime.host == host}
    cluster = harness.cluster
    flag = f"--hostname={host}"
    agent = next(part.name for part in cluster.components() if flag in part.flags)
    cluster.kill([agent])
    kill_tasks(cluster.layout.work_of(agent))
    fail_over(cluster)

    def anew() -> bool:
        changed = {number for number, run in waiting.runs().items() if run != before[number]}
        states = {task.runtime.state for task in waiting.tasks().values()}
        return changed == lost and states == {task_pb2.RUNNING}

    wait_for(anew, 60, lambda: str({n: str(task.runtime) for n, task in waiting.tasks().items()}))
    waiting.end()
    assert waiting.starts() == TASKS + len(lost)

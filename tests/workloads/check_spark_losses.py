"""Applications of Spark that lose executors: the results are right, and nothing is computed in vain.

PELOTON_KILLS=50 loses 50 executors, while leaders of all daemons are killed.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.overview import Status
from minicluster.settings import ClusterSettings, DaemonSettings, Instances
from minicluster.temporary import temporary_cluster
from peloton.client.discovery import ZooKeeperDiscovery

from .runs import EXAMPLES as TRAININGS
from .runs import alone, loss, python_of, wait_for
from .runs import running as training_of
from .spark_apps import (
    EXAMPLES,
    NEWEST,
    PATIENCE,
    PROGRAMS,
    Application,
    Executor,
    agent_of,
    agents,
    home,
    host_of,
    kill,
    make_pool,
    peloton,
    running,
    settings,
    state,
)

KILLS = int(os.environ.get("PELOTON_KILLS", "8"))
EXECUTORS = 3
AGENTS, CPUS = 4, 4
POOL, OTHER = "/spark", "/other"
LEADERS = ("jobmgr", "resmgr", "hostmgr")
SHUFFLE_PORT = 7337
PARTS = 6
"""Partitions of the program that caches and shuffles."""
JAX, TRAINING = python_of("workloads"), TRAININGS / "train_jax.py"
QUICK = DaemonSettings(
    resmgr={"entitlement_interval": 1.0, "preemption": {"period": 1.0, "strikes": 3}},
)
"""Shares and preemption are computed each second, not each minute."""
SECONDS = PATIENCE * 0.6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two of each daemon that elects a leader, and two pools: Spark's has what the other one leaves."""
    wanted = ClusterSettings(
        ports="free",
        agents=agents(AGENTS, f",{SHUFFLE_PORT}-{SHUFFLE_PORT}"),
        membership="zookeeper",
        instances=Instances(jobmgr=2, resmgr=2, hostmgr=2),
        settings=QUICK,
    )
    folder = tmp_path_factory.mktemp("pools")
    with temporary_cluster(wanted) as found:
        make_pool(found, folder, POOL, 2, AGENTS * CPUS)
        make_pool(found, folder, OTHER, AGENTS * CPUS - 2, AGENTS * CPUS)
        yield found


class Losses:
    """Ways to lose the oldest executor of an application."""

    def __init__(self, cluster: Cluster, application: Application, folder: Path) -> None:
        self.cluster, self.application, self.folder = cluster, application, folder
        self.ways: tuple[Callable[[Executor], Callable[[], None]], ...] = (
            self.stop,
            self.kill,
            self.stop_agent,
            self.preempt,
        )

    def lose(self, turn: int) -> str:
        """Lose an executor, and wait for another one; return how it was lost."""
        before = self.all_run()
        way = self.ways[turn % len(self.ways)]
        undo = way(before[0])
        try:
            old = {each.pid for each in before}
            self.wait(lambda: bool(old - self.pids()), f"{way.__name__}: no executor was lost")
        finally:
            undo()
        self.all_run()
        return way.__name__

    def all_run(self) -> list[Executor]:
        self.wait(lambda: len(self.pids()) >= EXECUTORS, f"fewer than {EXECUTORS} executors")
        return self.application.executors()

    def pids(self) -> set[int]:
        return {each.pid for each in self.application.executors()}

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        def asked() -> bool:
            assert self.application.process.poll() is None, self.application.text[-8000:]
            return holds()

        wait_for(asked, SECONDS, lambda: f"{what}: {self.application.text[-5000:]}")

    def stop(self, executor: Executor) -> Callable[[], None]:
        number = executor.instance
        self.must("task", "stop", self.application.job, "-r", f"{number}:{number + 1}")
        return nothing

    def kill(self, executor: Executor) -> Callable[[], None]:
        kill([executor.pid])
        return nothing

    def stop_agent(self, executor: Executor) -> Callable[[], None]:
        """The agent's tasks are lost with it."""
        agent = agent_of(host_of(self.cluster, self.application.job, executor.instance))
        self.cluster.stop([agent])
        return lambda: self.cluster.start([agent])

    def preempt(self, executor: Executor) -> Callable[[], None]:
        """The other pool takes what is its own."""
        job = other_job(self.cluster, self.folder, AGENTS * CPUS - 2)

        def undo() -> None:
            self.must("job", "stop", job)

        return undo

    def must(self, *words: str) -> None:
        """Call Peloton until it answers: its leader may have been killed a moment ago."""
        told: list[str] = []

        def done() -> bool:
            found = peloton(self.cluster, *words)
            told.append(found.stderr)
            return found.returncode == 0

        wait_for(done, SECONDS, lambda: f"{words}: {told[-1]}")


def nothing() -> None:
    """Have nothing to undo."""


def other_job(cluster: Cluster, folder: Path, tasks: int) -> str:
    """Have tasks of one CPU each in the other pool; return their job."""
    spec = folder / "other.yaml"
    spec.write_text(
        f"name: other\nowningTeam: other\ntype: BATCH\ninstanceCount: {tasks}\nsla: {{preemptible: false}}\n"
        "defaultConfig:\n  resource: {cpuLimit: 1, memLimitMb: 64}\n"
        "  command: {shell: true, value: exec sleep 3600}\n"
    )
    made: list[str] = []

    def done() -> bool:
        found = peloton(cluster, "job", "create", OTHER, str(spec))
        match = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", found.stdout)
        made.append(match[0] if match else found.stdout + found.stderr)
        return match is not None

    wait_for(done, SECONDS, lambda: made[-1])
    return made[-1]


def lose_leader(cluster: Cluster, role: str) -> None:
    """Kill the leader of a role."""
    discovery = ZooKeeperDiscovery(cluster.zookeeper_servers())
    try:
        port = discovery.address(role).rpartition(":")[2]
    finally:
        discovery.close()

    def leads(each: Status) -> bool:
        return each.name.startswith(role) and each.addresses["grpc"].rpartition(":")[2] == port

    kill([each.pid for each in cluster.status() if leads(each) and each.pid is not None])


def test_lost_executors_are_no_failures(cluster: Cluster, tmp_path: Path) -> None:
    """Executors are stopped, killed, lost with their agents and preempted while they shuffle."""
    end = tmp_path / "end"
    values = {
        "spark.peloton.pool": POOL,
        "spark.executor.maxNumFailures": 2 * KILLS,  # else SIGKILL ends an application in the end
        "spark.executor.instances": EXECUTORS,
        "spark.peloton.executor.graceSeconds": 5,
    }
    program = (str(PROGRAMS / "shuffles.py"), "3", str(end))
    told = []
    with running(cluster, NEWEST, *settings(values), *program) as application:
        application.saw("^round 1$")
        losses = Losses(cluster, application, tmp_path)
        for turn in range(KILLS):
            begun = time.monotonic()
            leader = LEADERS[turn // 2 % len(LEADERS)] if turn % 2 else ""
            if leader:
                lose_leader(cluster, leader)
            how = losses.lose(turn)
            cluster.start(())
            told.append(f"{how:<12}{leader:<10}{time.monotonic() - begun:6.1f} s")
            print(turn, told[-1], application.last(r"^(round \d+)$"), flush=True)
        end.touch()
        assert application.wait(PATIENCE) == 0, application.text[-5000:]
        assert re.search(r"^\d+ rounds, 0 wrong$", application.text, re.MULTILINE)
        assert state(cluster, application.job) == "SUCCEEDED"
    assert len(told) == KILLS


@pytest.mark.parametrize("how", ["preempted", "drained"])
def test_an_executor_that_has_to_go_moves_its_blocks_first(
    cluster: Cluster, tmp_path: Path, how: str
) -> None:
    """What it has cached and shuffled is not computed again: each partition leaves one mark."""
    marks, again = tmp_path / "marks", tmp_path / "again"
    marks.mkdir()
    values = {
        "spark.peloton.pool": POOL,
        "spark.executor.instances": EXECUTORS,
        "spark.peloton.executor.graceSeconds": int(SECONDS),  # all are on one host: others have to start
    }
    program = (str(PROGRAMS / "blocks.py"), str(marks), str(again))
    with running(cluster, NEWEST, *settings(values), *program) as application:
        application.saw("^computed ")
        computed = sorted(path.name for path in marks.iterdir())
        losses = Losses(cluster, application, tmp_path)
        before = losses.all_run()
        undo = nothing
        if how == "preempted":
            undo = losses.preempt(before[0])
        else:
            host = host_of(cluster, application.job, before[0].instance)
            losses.must("host", "maintenance", "start", host)
        try:
            old = {each.pid for each in before}
            losses.wait(lambda: bool(old - losses.pids()), "no executor has gone")
        finally:
            undo()
        if how == "drained":
            complete = ("host", "maintenance", "complete", host)
            wait_for(lambda: peloton(cluster, *complete).returncode == 0, SECONDS, lambda: "host is not DOWN")
            cluster.start(())  # the agent has ended with the drain
        losses.all_run()
        again.touch()
        assert application.wait(PATIENCE) == 0, application.text[-5000:]
        assert "equal True" in application.text
    assert sorted(path.name for path in marks.iterdir()) == computed


def test_spark_and_training_borrow_and_give_back(cluster: Cluster, tmp_path: Path) -> None:
    """Spark has what nobody wants, gives it back to a gang of another pool, and has it again afterwards.

    The gang needs three whole hosts: the shuffle service of the tests below must not be there yet.
    """
    end = tmp_path / "end"
    most = 4
    values = {
        "spark.peloton.pool": POOL,
        "spark.peloton.executor.cpus": 2.9,
        "spark.peloton.executor.graceSeconds": 5,
        "spark.executor.instances": most,
    }
    program = (str(PROGRAMS / "shuffles.py"), "3", str(end))
    with running(cluster, NEWEST, *settings(values), *program) as application:
        losses = Losses(cluster, application, tmp_path)

        def spark_has(executors: int) -> None:
            losses.wait(lambda: len(losses.pids()) == executors, f"not {executors} executors")
            told.append(f"{time.monotonic() - begun:5.1f} s: {len(losses.pids())} executors of Spark")

        begun, told = time.monotonic(), list[str]()
        spark_has(most)
        application.saw("^round 1$")
        wanted = loss(alone(JAX, TRAINING, "--steps", "40"))
        words = ("--pool", OTHER, "--framework", "jax", "-n", "3", "--cpus", "3.9", "--mem", "900")
        training = (str(JAX), str(TRAINING), "--steps", "40")
        with training_of(cluster, *words, "--", *training) as gang:
            spark_has(1)
            assert gang.wait(SECONDS) == 0, gang.text
        assert abs(loss(gang.text) - wanted) < 1e-6
        spark_has(most)
        end.touch()
        assert application.wait(PATIENCE) == 0, application.text[-5000:]
        assert re.search(r"^\d+ rounds, 0 wrong$", application.text, re.MULTILINE)
    print("\n".join(told))


@pytest.fixture(scope="module")
def shuffle_service(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The example of a daemon job. The hosts share an address: one of them alone has the port."""
    text = (EXAMPLES / "shuffle_service.yaml").read_text()
    assert str(SHUFFLE_PORT) in text and "/opt/spark" in text
    spec = tmp_path_factory.mktemp("service") / "shuffle_service.yaml"
    spec.write_text(text.replace("/opt/spark", str(home(NEWEST))))
    done = peloton(cluster, "job", "create", POOL, str(spec))
    assert done.returncode == 0, done.stderr
    wait_for(listens, SECONDS, lambda: peloton(cluster, "job", "query").stdout)


def listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", SHUFFLE_PORT)) == 0


@pytest.mark.parametrize("how", ["killed", "released"])
def test_a_shuffle_service_has_what_lost_executors_shuffled(
    cluster: Cluster, shuffle_service: None, tmp_path: Path, how: str
) -> None:
    marks, again = tmp_path / "marks", tmp_path / "again"
    marks.mkdir()
    values = {
        "spark.peloton.pool": POOL,
        "spark.shuffle.service.enabled": "true",
        "spark.executor.instances": EXECUTORS,
        "spark.executor.maxNumFailures": 100,
    }
    if how == "released":
        idle = dict.fromkeys(("executorIdleTimeout", "cachedExecutorIdleTimeout"), "2s")
        dynamic = {"enabled": "true", "maxExecutors": EXECUTORS, **idle}
        values |= {f"spark.dynamicAllocation.{name}": value for name, value in dynamic.items()}
    program = (str(PROGRAMS / "blocks.py"), str(marks), str(again))
    with running(cluster, NEWEST, *settings(values), *program) as application:
        application.saw("^computed ")
        mapped = sorted(path.name for path in marks.glob("mapped-*"))
        losses = Losses(cluster, application, tmp_path)
        if how == "killed":
            old = {each.pid for each in losses.all_run()}
            kill(sorted(old))
            losses.wait(lambda: not old & losses.pids(), "executors have not ended")
        else:
            losses.wait(lambda: not losses.pids(), "executors are not released")
        again.touch()
        assert application.wait(PATIENCE) == 0, application.text[-5000:]
        assert "equal True" in application.text
    assert len(mapped) == PARTS
    assert sorted(path.name for path in marks.glob("mapped-*")) == mapped

"""Job managers that get a twentieth of a core: one leads, and what it does goes on."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, Instances, Simulated
from peloton.model.states import TaskState
from tests.cluster.conftest import Harness, wait_for
from tests.servers.zookeeper import ZooKeeperServer

INSTANCES = 10_000
RUNS, PERIOD = 0.05, 1.0
"""Seconds of each period in which the processes may run."""
ENDED = f"SELECT count(*) FROM tasks WHERE state = {TaskState.SUCCEEDED:d}"


@contextmanager
def starved(pids: Sequence[int]) -> Iterator[None]:
    """Let processes run for a part of each period only; one may end meanwhile."""
    over = threading.Event()

    def send(number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def alternate() -> None:
        while not over.is_set():
            send(signal.SIGCONT)
            over.wait(RUNS)
            send(signal.SIGSTOP)
            over.wait(PERIOD - RUNS)
        send(signal.SIGCONT)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Stored:
    """What the job managers have stored: to ask them would take long, and cost them what they have."""

    def __init__(self, database: Path) -> None:
        self.database = database

    def one(self, query: str) -> int:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)) as db:
            row = db.execute(query).fetchone()
        return int(row[0]) if row else 0

    @property
    def term(self) -> int:
        return self.one("SELECT term FROM terms WHERE role = 'jobmgr'")

    @property
    def ended(self) -> int:
        return self.one(ENDED)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, zookeeper: ZooKeeperServer) -> Iterator[Cluster]:
    settings = ClusterSettings(
        ports="free",
        membership=f"zookeeper={zookeeper.address}",
        instances=Instances(jobmgr=2),
        simulated=Simulated(agents=20, resources="cpus:4;mem:8192;disk:20000", task_seconds=1),
    )
    made = Cluster(tmp_path_factory.mktemp("starved") / "cluster")
    made.up(settings)
    try:
        yield made
    finally:
        made.down()


@pytest.mark.long  # tests/integration/zookeeper/test_failover.py has steps that take seconds
def test_a_starved_leader_goes_on_with_a_large_job(cluster: Cluster) -> None:
    """The leader is killed; the other one reads 10,000 tasks, and places, launches and ends further ones.

    A term was lost while one step of its loop took longer than the lease, and the next one began anew.
    """
    harness, stored = Harness(cluster), Stored(cluster.layout.database)
    harness.create(harness.config("true", instances=INSTANCES))
    wait_for(lambda: stored.ended > 100, 120, lambda: f"{stored.ended} ended")
    pids = {part.name: part.pid for part in cluster.status() if part.name.startswith("jobmgr")}
    leads = harness.client.address("jobmgr")
    leader = next(part.name for part in cluster.components() if part.addresses.get("grpc") == leads)
    harness.client.close()
    before, term = stored.ended, stored.term
    assert before < INSTANCES / 2, "there is work left"
    with starved([pid for pid in pids.values() if pid is not None]):
        cluster.kill([leader])
        wait_for(lambda: stored.term > term, 120, lambda: f"still term {stored.term}")
        taken_over = stored.ended
        wait_for(
            lambda: stored.ended >= taken_over + 500,
            240,
            lambda: f"{stored.ended - taken_over} ended since; terms {term} to {stored.term}",
        )
        assert stored.term <= term + 2, "a term goes on"

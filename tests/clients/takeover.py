"""How soon clients are answered again after a change of leaders: one harness for all languages.

A program of each language makes calls until a file is there, each with 20 s, and prints a line for each:
`takeover: call <caller> <start> <end> <code>`, in seconds since the epoch; at the end `takeover: end`.
Meanwhile the leader is lost. When another one answers is found out by connections of the harness itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc

from minicluster.cluster import Cluster
from minicluster.components import Component
from minicluster.settings import ClusterSettings, Instances
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.client import PelotonClient
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery
from tests.clients.control import _freeze
from tests.faults.proxy import Proxy
from tests.servers.zookeeper import zookeeper_server

CALLERS = 8
PAUSE = 0.01
"""Seconds from an answer to the next call, in the programs of all languages."""
LOSSES = ("kill", "freeze", "cut")
PATIENCE = 120.0
SETTLED = 3.0
"""Seconds of calls after another leader answers."""


class Scene(Cluster):
    """A cluster whose job managers each reach ZooKeeper by a way of their own, which can be cut."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        super().__init__(directory)
        self.zookeeper = zookeeper
        host, port = zookeeper.split(":")
        self.ways = {f"jobmgr{number}": Proxy(host, int(port)) for number in range(2)}

    def components(self) -> tuple[Component, ...]:
        return tuple(self._by_its_way(part) for part in super().components())

    def _by_its_way(self, part: Component) -> Component:
        if part.name not in self.ways:
            return part
        tree = {**part.settings["membership"], "servers": self.ways[part.name].address}
        return replace(part, settings={**part.settings, "membership": tree})


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """A cluster with two job managers, found by ZooKeeper."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(zookeeper_server(folder / "zookeeper"))
        cluster = Scene(folder / "cluster", zookeeper.address)
        for way in cluster.ways.values():
            way.start()
            stack.callback(way.close)
        stack.callback(cluster.down)
        instances = Instances(jobmgr=2)
        membership = f"zookeeper={zookeeper.address}"
        cluster.up(ClusterSettings(ports="free", membership=membership, instances=instances))
        yield cluster


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of one change of leaders. Times are seconds."""

    without: float
    """From the loss to the first answer of another leader."""
    again: float
    """From there until every caller of the client had an answer."""
    late: float
    """By how much a call, or the pause before one, took too long afterwards at most: on a busy machine."""
    failed: Sequence[str]
    """Codes of calls that failed."""
    calls: int


def measure(cluster: Scene, command: Sequence[str], cwd: Path, loss: str, *, by_zookeeper: bool) -> Taken:
    """Lose the leader while a program calls it. The cluster is whole again afterwards."""
    stop = cluster.directory.parent / "stop"
    stop.unlink(missing_ok=True)
    addresses = {each.name: each.addresses["grpc"] for each in cluster.status() if each.name in cluster.ways}
    found = (
        {"ZK_SERVERS": cluster.zookeeper} if by_zookeeper else {"JOBMGR_URL": ",".join(addresses.values())}
    )
    environment = {**os.environ, **found, "PELOTON_TAKEOVER_STOP": str(stop)}
    with closing(ZooKeeperDiscovery(cluster.zookeeper)) as discovery:
        before = discovery.address("jobmgr")
        name = next(each for each, address in addresses.items() if _port(address) == _port(before))
        with _program(command, cwd, environment) as lines:
            _until(lambda: len(lines) > 20 * CALLERS)
            lost = time.time()
            restore = _lose(cluster, name, loss)
            try:
                answers = _next_answer(discovery, before)
                time.sleep(SETTLED)
                stop.touch()
                _until(lambda: bool(lines) and lines[-1] == "end")
            finally:
                restore()
    calls = [_Call.of(line) for line in lines if line.startswith("call ")]
    firsts: dict[str, float] = {}
    for each in calls:
        if each.code == "OK" and each.ended >= answers:
            firsts.setdefault(each.caller, each.ended)
    whole = max(firsts.values()) if len(firsts) == CALLERS else answers + PATIENCE
    failed = [each.code for each in calls if each.code != "OK"]
    return Taken(answers - lost, whole - answers, _late(calls, whole), failed, len(calls))


@dataclass(frozen=True, slots=True)
class _Call:
    caller: str
    began: float
    ended: float
    code: str

    @classmethod
    def of(cls, line: str) -> _Call:
        _, caller, began, ended, code = line.split()
        return cls(caller, float(began), float(ended), code)


def _late(calls: Sequence[_Call], since: float) -> float:
    """Return how long calls, and the pauses before them, took since then beyond what they have to."""
    late, last = 0.0, dict[str, float]()
    for each in calls:
        if each.began >= since:
            late = max(late, each.ended - each.began, each.began - last.get(each.caller, each.began) - PAUSE)
            last[each.caller] = each.ended
    return late


def _port(address: str) -> str:
    return address.rpartition(":")[2]


@contextmanager
def _program(command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Run a program; give the lines that it has printed so far."""
    running = subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines: list[str] = []

    def read() -> None:
        assert running.stdout is not None
        for line in running.stdout:
            _, mark, rest = line.partition("takeover: ")  # test runners write before it
            if mark:
                lines.append(rest.strip())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lines
    finally:
        running.kill()
        running.wait()
        reader.join()


def _lose(cluster: Scene, name: str, loss: str) -> Callable[[], object]:
    """Lose a job manager; return what restores it."""
    pid = next(each.pid for each in cluster.status() if each.name == name)
    assert pid is not None
    if loss == "kill":
        os.kill(pid, signal.SIGKILL)
        return lambda: cluster.start(())
    if loss == "freeze":
        _freeze(pid, cluster.layout.database)

        def thaw() -> None:
            os.kill(pid, signal.SIGCONT)
            cluster.start(())

        return thaw
    way = cluster.ways[name]
    way.down = True
    way.cut()

    def mend() -> None:
        way.down = False
        cluster.start(())

    return mend


def _next_answer(discovery: ZooKeeperDiscovery, before: str) -> float:
    """Return when another leader has answered."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            address = discovery.address("jobmgr")
            if address != before:
                with grpc.insecure_channel(address) as channel:
                    request = job_pb2.GetActiveJobsRequest()
                    job_pb2_grpc.JobManagerStub(channel).GetActiveJobs(request, timeout=5)
                return time.time()
        except (DiscoveryError, grpc.RpcError):
            time.sleep(0.02)
    raise AssertionError("nobody leads")


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.02)


def by_python() -> None:
    """The program of the Python client."""
    stop = Path(os.environ["PELOTON_TAKEOVER_STOP"])

    def call(caller: int) -> None:
        while not stop.exists():
            start, code = time.time(), "OK"
            try:
                client.job_svc.GetActiveJobs(job_pb2.GetActiveJobsRequest())
            except grpc.RpcError as error:
                code = error.code().name
            sys.stdout.write(f"takeover: call {caller} {start:.6f} {time.time():.6f} {code}\n")
            sys.stdout.flush()
            time.sleep(PAUSE)

    with PelotonClient.from_environment("takeover") as client:
        callers = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
        for each in callers:
            each.start()
        for each in callers:
            each.join()
    print("takeover: end", flush=True)


if __name__ == "__main__":
    by_python()

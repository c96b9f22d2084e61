"""Adds instances to a batch job one at a time and releases them, many times over, on real daemon processes.

    python benchmarks/releases.py --rounds 100 --count 1000 --hosts 100 [--storage cassandra] [--cache-mb 4]

Prints one figure per line: for the first, the second and the last round the milliseconds of an Update that
adds one instance (p50, p99), the seconds until all run and until all numbers are free, the CPU milliseconds
of each process per instance, and its memory; the rows in SQLite; and what a run leaves in memory in the
second half of the rounds. The first round makes the numbers: from the second one on they are used again.
jobmgr's memory grows until SQLite's caches of pages (`storage.cache_mb`) hold the newest history, as it
does by any runs: with a small cache it is flat. hostmgr's grows until what it remembers of a fixed size is
full: 100,000 statuses that were passed on (`event_ring`), 50,000 used claims, 10,000 ended runs. CPU tells,
also on a busy machine, whether rounds cost more as they go on.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.throughput import client_of, create, make_pool, settings_of, tell
from minicluster.cluster import Cluster
from minicluster.processes import load
from minicluster.settings import ClusterSettings, DaemonSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.job.instances import instances_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError

POLL_SECONDS = 0.1
LIVE = ("jobs", "job_configs", "job_index", "tasks")
MEASURED = ("jobmgr0", "resmgr0", "hostmgr0")
TASK = task_pb2.ResourceConfig(cpuLimit=0.1, memLimitMb=32, diskLimitMb=8)
LONG = 1e6
"""Seconds of a simulated task: it ends when it is released."""


@dataclass(frozen=True, slots=True)
class Round:
    adds: list[float]
    """Seconds of each Update, in order."""
    running: float
    """Seconds from the last Update until all instances run."""
    freed: float
    """Seconds from the release until all numbers are free."""
    cpu: dict[str, float]
    """CPU milliseconds per instance that was added and released, by process."""
    memory: dict[str, float]
    """Resident memory in MB, by process."""
    rows: dict[str, int]
    """Rows in SQLite, by table; empty for another store."""


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--count", type=int, default=100, help="instances that each round adds and releases")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--storage", default="sqlite", metavar="sqlite|cassandra[=HOST:PORT,…]")
    parser.add_argument("--cache-mb", type=int, default=128, help="of SQLite, in each daemon")
    parser.add_argument("--membership", default="local", metavar="local|zookeeper[=HOST:PORT,…]")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until a round is given up")
    parser.add_argument("--seconds", type=float, default=7200.0, help="no round begins later than this")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    parser.set_defaults(secure=False, task_seconds=LONG)
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    rounds: list[Round] = []
    with (
        temporary_cluster(with_cache(options), tell, options.keep_logs) as cluster,
        client_of(cluster) as client,
    ):
        driver = Driver(client, create(client, make_pool(client), 1, TASK, "true"), options)
        begun = time.monotonic()
        while len(rounds) < options.rounds and time.monotonic() < begun + options.seconds:
            rounds.append(driver.round(cluster, len(rounds) + 1))
            tell(told(len(rounds), rounds[-1]))
    return report(rounds, driver)


def with_cache(options: argparse.Namespace) -> ClusterSettings:
    """Return the settings of the cluster, with the cache of SQLite that is asked for."""
    made = settings_of(options)
    if options.storage != "sqlite":
        return made
    own = {role: {"storage": {"cache_mb": options.cache_mb}} for role in ("jobmgr", "resmgr", "hostmgr")}
    return made.model_copy(update={"settings": DaemonSettings(**own)})


class Driver:
    """Adds and releases instances of one job, whose instance 0 stays."""

    def __init__(self, client: PelotonClient, job_id: str, options: argparse.Namespace) -> None:
        self._client = client
        self._job = peloton_pb2.JobID(value=job_id)
        self._count: int = options.count
        self._timeout: float = options.timeout
        self._config = self._info().config
        self.highest = 0
        """The highest number that was given."""

    def round(self, cluster: Cluster, number: int) -> Round:
        before = cpu_seconds(cluster)
        adds = [self._add(each + 2) for each in range(self._count)]
        running = self._wait(lambda info: info.runtime.taskStats.get("RUNNING", 0) == self._count + 1)
        self._check_runs(number)
        self._release()
        freed = self._wait(lambda info: sum(info.runtime.taskStats.values()) == 1)
        spent = {
            name: (seconds - before.get(name, 0.0)) * 1000 / self._count
            for name, seconds in cpu_seconds(cluster).items()
        }
        return Round(adds, running, freed, spent, memory(cluster), rows(cluster.layout.database))

    def _add(self, wanted: int) -> float:
        self._config.instanceCount = wanted
        request = job_pb2.UpdateRequest(id=self._job, config=self._config)
        begun = time.perf_counter()
        answer = self._client.job_svc.Update(request, timeout=60)
        seconds = time.perf_counter() - begun
        if answer.HasField("error") or len(answer.addedInstances) != 1:
            raise PelotonError(f"an Update to {wanted} instances has not added one: {answer}")
        self.highest = max(self.highest, *answer.addedInstances)
        return seconds

    def _release(self) -> None:
        request = instances_pb2.ReleaseInstancesRequest(job_id=self._job, instance_count=1)
        answer = self._client.instance_svc.ReleaseInstances(request, timeout=60)
        if len(answer.released_instances) != self._count:
            raise PelotonError(f"{len(answer.released_instances)} instances are released, not {self._count}")

    def _check_runs(self, number: int) -> None:
        """Raise PelotonError unless the instance with the highest number has a run for each round."""
        request = task_pb2.GetRequest(jobId=self._job, instanceId=self.highest)
        run = self._client.task_svc.Get(request, timeout=60).result.runtime.mesosTaskId.value
        if run.rpartition("-")[2] != str(number):
            raise PelotonError(f"run {run} of instance {self.highest} is not that of round {number}")

    def _info(self) -> job_pb2.JobInfo:
        answer = self._client.job_svc.Get(job_pb2.GetRequest(id=self._job), timeout=60)
        info: job_pb2.JobInfo = answer.jobInfo
        return info

    def _wait(self, holds: Callable[[job_pb2.JobInfo], bool]) -> float:
        begun = time.perf_counter()
        while not holds(info := self._info()):
            if time.perf_counter() - begun > self._timeout:
                raise PelotonError(f"not done after {self._timeout:.0f} s: {dict(info.runtime.taskStats)}")
            time.sleep(POLL_SECONDS)
        return time.perf_counter() - begun


def processes(cluster: Cluster) -> dict[str, psutil.Process]:
    found = ((part.name, load(cluster.layout.run_of(part.name))) for part in cluster.components())
    return {name: psutil.Process(process.pid) for name, process in found if process is not None}


def memory(cluster: Cluster) -> dict[str, float]:
    return {name: process.memory_info().rss / 2**20 for name, process in processes(cluster).items()}


def cpu_seconds(cluster: Cluster) -> dict[str, float]:
    times = {name: process.cpu_times() for name, process in processes(cluster).items()}
    return {name: each.user + each.system for name, each in times.items()}


def rows(database: Path) -> dict[str, int]:
    if not database.exists():
        return {}
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as held:
        counts = {name: held.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in LIVE}
        return counts | {"pod_events": held.execute("SELECT count(*) FROM pod_events").fetchone()[0]}


def told(number: int, one: Round) -> str:
    sizes = ", ".join(
        f"{name} {one.memory[name]:.0f} MB, {one.cpu.get(name, 0.0):.2f} ms of CPU per instance"
        for name in MEASURED
        if name in one.memory
    )
    return (
        f"round {number}: add p50 {percentile(one.adds, 50) * 1000:.1f} ms, p99 "
        f"{percentile(one.adds, 99) * 1000:.1f} ms, all run after {one.running:.1f} s, free after "
        f"{one.freed:.1f} s; {sizes}; rows {one.rows}"
    )


def percentile(values: list[float], at: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * at // 100)]


def report(rounds: list[Round], driver: Driver) -> int:
    shown = {"first": rounds[0], "second": rounds[min(1, len(rounds) - 1)], "last": rounds[-1]}
    print(f"rounds: {len(rounds)}")
    print(f"highest number: {driver.highest}")
    for name, one in shown.items():
        for at in (50, 99):
            print(f"{name} round add p{at} ms: {percentile(one.adds, at) * 1000:.2f}")
        print(f"{name} round seconds until all run: {one.running:.2f}")
        print(f"{name} round seconds until all are free: {one.freed:.2f}")
        for process in MEASURED:
            print(f"{name} round {process} CPU ms per instance: {one.cpu.get(process, 0.0):.3f}")
            print(f"{name} round {process} memory MB: {one.memory.get(process, 0.0):.1f}")
        for table, count in one.rows.items():
            print(f"{name} round rows of {table}: {count}")
    second, last = shown["second"], shown["last"]
    print(f"add p50, last to second round: {percentile(last.adds, 50) / percentile(second.adds, 50):.2f}")
    for process in MEASURED:
        ratio = last.cpu.get(process, 0.0) / (second.cpu.get(process, 0.0) or 1.0)
        print(f"{process} CPU, last to second round: {ratio:.2f}")
    middle = rounds[(len(rounds) - 1) // 2]
    runs = max((len(rounds) - 1 - (len(rounds) - 1) // 2) * len(last.adds), 1)
    for process in MEASURED:
        grown = last.memory.get(process, 0.0) - middle.memory.get(process, 0.0)
        print(f"{process} bytes left by a run, second half: {grown * 2**20 / runs:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

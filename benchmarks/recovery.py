"""Recovery at size: a cluster full of tasks whose leaders are killed one after the other.

    python benchmarks/recovery.py --tasks 1000000 --running 10000 [--storage cassandra]

Jobs are created by the API; the cluster has room for `--running` tasks, the others stay pending. Then the
processes of resmgr and of jobmgr are killed and started again, one after the other, while clients get, create
and stop other jobs. Prints, of each of the two:

    resmgr leads after s: N      from the kill to the first call that is answered, its start included
    resmgr settled after s: N    from then until all that is stored is taken in and compared
    p99 of calls meanwhile s: N  of Get, Create and Stop of other jobs, until it had settled: from the kill of
                                 resmgr, which they do not go to, and from the moment that jobmgr led again

and the peak memory of both. Afterwards no task may be lost or run twice; else it says so and fails.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a resmgr too

from benchmarks.throughput import TASK, client_of, make_pool, tell, usage
from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.processes import POLL_SECONDS, wait_until
from minicluster.settings import ClusterSettings, Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError, Unavailable

CPUS_PER_HOST = 8
FOR_EVER = 10_000_000.0
CALLERS = 4
PAUSE_SECONDS = 0.05
"""Of a caller between two calls."""
FIRST_CALL_SECONDS = 2.0
SCRAPE_SECONDS = 0.5
"""Between two looks at a daemon's metrics, each of which costs it some 20 ms."""


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def measure(options: argparse.Namespace) -> int:
    with temporary_cluster(settings_of(options), tell, options.keep_logs) as cluster:
        world = World(cluster, options)
        world.fill()
        wrong = [wrong for role in options.kill for wrong in world.recover(role)]
        report_memory(cluster)
    for line in wrong:
        print(f"wrong: {line}")
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--running", type=int, default=10_000, help="for how many of them there is room")
    parser.add_argument("--jobs", type=int, default=10, help="among which they are divided evenly")
    parser.add_argument("--kill", nargs="+", choices=("resmgr", "jobmgr"), default=("resmgr", "jobmgr"))
    parser.add_argument("--storage", default="sqlite", metavar="sqlite|cassandra[=HOST:PORT,…]")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds until a step is given up")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    options = parser.parse_args()
    if options.tasks % options.jobs or options.running % options.jobs:
        parser.error("--tasks and --running must be multiples of --jobs")
    return options


def settings_of(options: argparse.Namespace) -> ClusterSettings:
    simulated = Simulated(
        agents=-(-options.running // CPUS_PER_HOST),
        resources=f"cpus:{CPUS_PER_HOST};mem:16384;disk:100000;ports:[31000-31999]",
        task_seconds=FOR_EVER,
    )
    tree = {"ports": "free", "storage": options.storage}
    return read_cluster(None, tree).model_copy(update={"simulated": simulated})


class World:
    """A full cluster, and what is done to it."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace) -> None:
        self.cluster = cluster
        self.options = options
        self.client = client_of(cluster)
        self.pool = make_pool(self.client)
        self.jobs: list[str] = []

    @property
    def pending(self) -> int:
        return int(self.options.tasks - self.options.running)

    def fill(self) -> None:
        """Jobs as large as what shall run of them, which grow once that runs."""
        options, begun = self.options, time.monotonic()
        first = config(self.pool, options.running // options.jobs)
        self.jobs = [str(uuid.uuid4()) for _ in range(options.jobs)]
        for job_id in self.jobs:
            create(self.client, first, job_id)
        self.await_tasks("RUNNING", options.running)
        grown = config(self.pool, options.tasks // options.jobs)
        for job_id in self.jobs:
            request = job_pb2.UpdateRequest(id=peloton_pb2.JobID(value=job_id), config=grown)
            update = self.client.job_svc.Update
            answer = update(request, metadata=self.client.jobmgr_metadata, timeout=60)
            if answer.HasField("error"):
                raise PelotonError(f"cannot update job {job_id}: {answer.error}")
        self.await_tasks("PENDING", self.pending)
        tell(f"{options.tasks} tasks are there after {time.monotonic() - begun:.0f} s; {load()}")

    def await_tasks(self, state: str, count: int) -> None:
        def there() -> bool:
            return sum(counts.get(state, 0) for counts in self.counts()) >= count

        self.wait(there, f"{count} tasks {state}")

    def counts(self) -> list[dict[str, int]]:
        """Of each job, its tasks by state."""
        requests = [job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id)) for job_id in self.jobs]
        with client_of(self.cluster) as client:
            get = client.job_svc.Get
            answers = [get(each, metadata=client.jobmgr_metadata, timeout=60) for each in requests]
        return [dict(answer.jobInfo.runtime.taskStats) for answer in answers]

    def recover(self, role: str) -> list[str]:
        """Kill the role's leader; what is wrong afterwards."""
        compared = self.metric("jobmgr", "jobmgr_compared_runs_total") if role == "resmgr" else 0.0
        before = self.counts()
        with Callers(self.cluster, self.pool) as callers:
            self.wait(lambda: callers.calls > 2 * CALLERS, "the first calls")
            begun = time.monotonic()
            self.cluster.kill([f"{role}0"])
            starting = threading.Thread(target=self.cluster.start, args=([f"{role}0"],))
            starting.start()
            self.wait(lambda: self.leads(role), f"{role} to lead")
            leads = time.monotonic()
            self.wait(lambda: self.settled(compared), f"{role} to settle", SCRAPE_SECONDS)
            settled = time.monotonic()
            starting.join()
        since = begun if role == "resmgr" else leads
        times = sorted(took for at, took in callers.taken if at >= since and at + took <= settled)
        print(f"{role} leads after s: {leads - begun:.2f}")
        print(f"{role} settled after s: {settled - leads:.2f}")
        print(f"p99 of calls meanwhile s: {percentile(times, 0.99):.3f}  ({role} killed)")
        tell(f"{len(times)} calls, the longest took {times[-1] if times else 0:.2f} s; {load()}")
        wrong = [*self.compare(role, before), *callers.wrong]
        return wrong if times else [*wrong, f"no call was answered until {role} had settled"]

    def leads(self, role: str) -> bool:
        """By a connection of its own: one that has failed waits before it tries again."""
        with client_of(self.cluster) as client:
            try:
                if role == "jobmgr":
                    job = job_pb2.GetRequest(id=peloton_pb2.JobID(value=self.jobs[0]))
                    client.job_svc.Get(job, metadata=client.jobmgr_metadata, timeout=FIRST_CALL_SECONDS)
                else:
                    pool = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=self.pool))
                    get = client.respool_svc.GetResourcePool
                    get(pool, metadata=client.resmgr_metadata, timeout=FIRST_CALL_SECONDS)
            except grpc.RpcError:
                return False
        return True

    def settled(self, compared: float) -> bool:
        """Whether both have all that is stored, and jobmgr has since compared what is pending with resmgr."""
        return (
            self.metric("resmgr", "resmgr_recovery_settled") == 1
            and self.metric("jobmgr", "jobmgr_compared_runs_total") >= compared + self.pending
            and self.metric("jobmgr", "jobmgr_recovery_settled") == 1
        )

    def compare(self, role: str, before: Sequence[dict[str, int]]) -> list[str]:
        """What is wrong with the tasks after `role` was killed."""
        wrong = []
        if self.counts() != before:
            wrong.append(f"{role} killed: tasks were {before}, and are {self.counts()}")
        running = 'resmgr_pool_allocation{kind="cpu",pool="/bench"}'

        def held() -> tuple[float, float]:
            return self.metric("resmgr", "resmgr_tasks"), self.metric("resmgr", running)

        wanted = float(self.options.tasks), float(self.options.running)
        if not wait_until(lambda: held() == wanted, 60):
            wrong.append(f"{role} killed: resmgr holds tasks and cpus {held()}, not {wanted}")
        return wrong

    def metric(self, role: str, name: str) -> float:
        """-1 where it is not there."""
        part = next(part for part in self.cluster.components() if part.name == f"{role}0")
        try:
            url = f"http://{part.addresses['http']}/metrics"
            with urllib.request.urlopen(url, timeout=FIRST_CALL_SECONDS) as answer:
                text = answer.read().decode()
        except OSError:
            return -1.0
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1.0

    def wait(self, holds: Callable[[], bool], what: str, poll: float = POLL_SECONDS) -> None:
        if not wait_until(holds, self.options.timeout, poll):
            raise Unavailable(f"not after {self.options.timeout:.0f} s: {what}")


@dataclass
class Callers:
    """Clients that create, get and stop jobs of their own, all the while."""

    cluster: Cluster
    pool: str
    taken: list[tuple[float, float]] = field(default_factory=list)
    """When each call that was answered began, and how long it took."""
    wrong: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def calls(self) -> int:
        return len(self.taken)

    def __enter__(self) -> Callers:
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        """One life of a job after the other, also of one of which the leader fell in the middle."""
        while not self._over.is_set():
            job_id = str(uuid.uuid4())
            while not self._lived(job_id):
                time.sleep(PAUSE_SECONDS)

    def _lived(self, job_id: str) -> bool:
        """Whether the job was created, looked at and stopped."""
        id_ = peloton_pb2.JobID(value=job_id)
        wanted = config(self.pool, 1)
        with client_of(self.cluster) as client:
            options: dict[str, Any] = {"metadata": client.jobmgr_metadata, "timeout": 60}
            try:
                self._timed(lambda: create(client, wanted, job_id))
                self._timed(lambda: client.job_svc.Get(job_pb2.GetRequest(id=id_), **options))
                self._timed(lambda: client.job_svc.Stop(job_pb2.StopRequest(id=id_), **options))
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                    self.wrong.append(f"a call: {error.code()} {error.details()}")
                return False
            except PelotonError as error:
                self.wrong.append(str(error))
        return True

    def _timed(self, call: Callable[[], object]) -> None:
        begun = time.monotonic()
        call()
        self.taken.append((begun, time.monotonic() - begun))
        time.sleep(PAUSE_SECONDS)


def config(pool: str, instances: int) -> job_pb2.JobConfig:
    return job_pb2.JobConfig(
        name="recovery",
        type=job_pb2.BATCH,
        owningTeam="bench",
        instanceCount=instances,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(preemptible=True),
        defaultConfig=task_pb2.TaskConfig(
            resource=TASK, command=mesos_pb2.CommandInfo(shell=True, value="true")
        ),
    )


def create(client: PelotonClient, wanted: job_pb2.JobConfig, job_id: str) -> None:
    """That it is there already is no error: an answer may have been lost."""
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_id), config=wanted)
    answer = client.job_svc.Create(request, metadata=client.jobmgr_metadata, timeout=60)
    if answer.HasField("error") and not answer.error.HasField("alreadyExists"):
        raise PelotonError(f"cannot create job {job_id}: {answer.error}")


def percentile(ascending: Sequence[float], part: float) -> float:
    return ascending[min(len(ascending) - 1, int(len(ascending) * part))] if ascending else float("nan")


def report_memory(cluster: Cluster) -> None:
    used = usage(cluster)
    for role in ("resmgr", "jobmgr"):
        print(f"{role} peak memory MB: {used[f'{role}0'].memory:.0f}")


def load() -> str:
    return f"load average {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())

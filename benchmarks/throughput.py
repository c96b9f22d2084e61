"""Tasks per second through real daemon processes on simulated agents: from CreateJob to all SUCCEEDED.

    python benchmarks/throughput.py --tasks 10000 --hosts 1000 [--storage cassandra] [--membership zookeeper]
        [--secure]

Prints one figure per line: tasks per second, p50 and p99 of create-to-running per task, and CPU seconds
and peak memory of each process. --storage and --membership are those of `peloton minicluster up`; what a
Cassandra and a ZooKeeper that are started along use is told by lines of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.components import DAEMONS
from minicluster.processes import load
from minicluster.settings import ClusterSettings, Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.client.environment import settings_from_environment
from peloton.clock import NANOSECONDS, parse_rfc3339
from peloton.errors import PelotonError

POLL_SECONDS = 0.25
TASK = task_pb2.ResourceConfig(cpuLimit=1, memLimitMb=64, diskLimitMb=16)
AMPLE = 1e12
"""More of any kind of resource than there is: a million tasks have 1e9 MB of memory."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process: CPU seconds since it started, and the peak of its resident memory in MB."""

    cpu: float
    memory: float


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def measure(options: argparse.Namespace) -> int:
    with temporary_cluster(settings_of(options), tell, options.keep_logs) as cluster:
        with client_of(cluster) as client:
            pool = make_pool(client)
            before = usage(cluster)
            begun = time.time_ns()
            job_id = create(client, pool, options.tasks, TASK, "true")
            state = follow(client, job_id, options.timeout)
            ended = time.time_ns()
            report(client, job_id, options.tasks, begun, ended)
        daemons = [part.name for part in cluster.components() if part.kind in DAEMONS]
        report_usage(before, usage(cluster), daemons, options.tasks)
    print(f"job state: {job_pb2.JobState.Name(state)}")
    return 0 if state == job_pb2.SUCCEEDED else 1


def client_of(cluster: Cluster) -> PelotonClient:
    return PelotonClient("benchmark", **settings_from_environment(cluster.urls()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--task-seconds", type=float, default=1.0, help="how long a simulated task lasts")
    parser.add_argument("--storage", default="sqlite", metavar="sqlite|cassandra[=HOST:PORT,…]")
    parser.add_argument("--membership", default="local", metavar="local|zookeeper[=HOST:PORT,…]")
    parser.add_argument(
        "--secure", action="store_true", help="with TLS, certificates of the daemons, and users"
    )
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until the run is given up")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    return parser.parse_args()


def settings_of(options: argparse.Namespace) -> ClusterSettings:
    tree = {"ports": "free", "storage": options.storage, "membership": options.membership}
    simulated = Simulated(agents=options.hosts, task_seconds=options.task_seconds)
    changes = {"simulated": simulated, "secure": options.secure}
    return read_cluster(None, tree).model_copy(update=changes)


def tell(line: str) -> None:
    """Progress, beside the figures."""
    print(line, file=sys.stderr, flush=True)


def make_pool(client: PelotonClient, name: str = "bench", limit: float = AMPLE) -> str:
    """Create a pool with this limit of each kind; return its id."""
    config = respool_pb2.ResourcePoolConfig(
        name=name,
        parent=peloton_pb2.ResourcePoolID(value="root"),
        policy=respool_pb2.PriorityFIFO,
        resources=[
            respool_pb2.ResourceConfig(kind=kind, limit=limit, share=1)
            for kind in ("cpu", "memory", "disk", "gpu")
        ],
    )
    answer = client.respool_svc.CreateResourcePool(
        respool_pb2.CreateRequest(config=config), metadata=client.resmgr_metadata, timeout=30
    )
    if answer.HasField("error"):
        raise PelotonError(f"cannot create the pool: {answer.error}")
    return str(answer.result.value)


def create(
    client: PelotonClient, pool: str, tasks: int, resource: task_pb2.ResourceConfig, command: str
) -> str:
    config = job_pb2.JobConfig(
        name="bench",
        type=job_pb2.BATCH,
        owningTeam="bench",
        instanceCount=tasks,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(preemptible=True),
        defaultConfig=task_pb2.TaskConfig(
            resource=resource, command=mesos_pb2.CommandInfo(shell=True, value=command)
        ),
    )
    answer = client.job_svc.Create(
        job_pb2.CreateRequest(config=config), metadata=client.jobmgr_metadata, timeout=60
    )
    if answer.HasField("error"):
        raise PelotonError(f"cannot create the job: {answer.error}")
    return str(answer.jobId.value)


def follow(client: PelotonClient, job_id: str, seconds: float) -> job_pb2.JobState.ValueType:
    deadline = time.monotonic() + seconds
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
    while True:
        runtime = client.job_svc.Get(request, metadata=client.jobmgr_metadata, timeout=30).jobInfo.runtime
        if sys.stderr.isatty():
            counts = " ".join(
                f"{state} {count}" for state, count in sorted(runtime.taskStats.items()) if count
            )
            print(f"\r\033[K{counts}", end="", file=sys.stderr)
        if runtime.state in (job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED):
            return job_pb2.JobState.ValueType(runtime.state)
        if time.monotonic() > deadline:
            raise PelotonError(f"not done after {seconds:.0f} s: {dict(runtime.taskStats)}")
        time.sleep(POLL_SECONDS)


def report(client: PelotonClient, job_id: str, tasks: int, begun: int, ended: int) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
    runtimes = runtimes_of(client, job_id, tasks)
    last = max(parse_rfc3339(runtime.completionTime) for runtime in runtimes)
    waits = sorted((parse_rfc3339(runtime.startTime) - begun) / NANOSECONDS for runtime in runtimes)
    print(f"tasks per second: {tasks / ((min(last, ended) - begun) / NANOSECONDS):.0f}")
    print(f"tasks per second until seen to have ended: {tasks / ((ended - begun) / NANOSECONDS):.0f}")
    print(f"create to running p50 s: {waits[len(waits) // 2]:.2f}")
    print(f"create to running p99 s: {waits[min(len(waits) - 1, len(waits) * 99 // 100)]:.2f}")


def runtimes_of(client: PelotonClient, job_id: str, tasks: int) -> list[task_pb2.RuntimeInfo]:
    request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
    listed = client.task_svc.List(request, metadata=client.jobmgr_metadata, timeout=120).result.value
    return [listed[i].runtime for i in range(tasks)]


def usage(cluster: Cluster) -> dict[str, Usage]:
    """By component."""
    found = {}
    for part in cluster.components():
        process = load(cluster.layout.run_of(part.name))
        assert process is not None, f"{part.name} is not there"
        times = psutil.Process(process.pid).cpu_times()
        # psutil does not give the peak of the memory.
        status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        peak = next(line for line in status if line.startswith("VmHWM"))
        found[part.name] = Usage(times.user + times.system, int(peak.split()[1]) / 1024)
    return found


def report_usage(
    before: Mapping[str, Usage], after: Mapping[str, Usage], daemons: Sequence[str], tasks: int
) -> None:
    spent = {name: now.cpu - before[name].cpu for name, now in after.items()}
    for name, now in after.items():
        print(f"{name} CPU seconds: {spent[name]:.2f}")
        print(f"{name} peak memory MB: {now.memory:.0f}")
    own = sum(spent[name] for name in daemons)
    print(f"CPU microseconds per task, daemons: {own / tasks * 1e6:.0f}")
    print(f"CPU microseconds per task, all processes: {sum(spent.values()) / tasks * 1e6:.0f}")


if __name__ == "__main__":
    sys.exit(main())

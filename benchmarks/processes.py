"""Real processes per second through real daemons: a job of many `true` on agents that run them as processes.

    python benchmarks/processes.py [--count 1000] [--agents 3] [--secure]

Counted from CreateJob to the last task's end. Prints one figure per line: processes per second, p50 and p99
of create-to-running per task, CPU seconds and peak memory of each process, and what a task costs in all of
them. Each task is a shell of its own with a sandbox, a limit on its memory and an exit code.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.throughput import (
    client_of,
    create,
    follow,
    make_pool,
    report_usage,
    runtimes_of,
    tell,
    usage,
)
from minicluster.components import DAEMONS
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS, parse_rfc3339

FIRST_PORT = 20_000
PORTS_EACH = 100


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="processes, each an instance of one job")
    parser.add_argument("--agents", type=int, default=3, help="agents of 4 cpus each")
    parser.add_argument("--command", default="true", help="what each process is, for a shell")
    parser.add_argument("--cpus", type=float, default=0.01, help="of a task: how many run at once")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until the run is given up")
    parser.add_argument("--secure", action="store_true", help="a secure cluster, whose tasks are isolated")
    parser.add_argument("--keep-logs", type=Path, help="copy the logs to this folder")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    task = task_pb2.ResourceConfig(cpuLimit=options.cpus, memLimitMb=4, diskLimitMb=4)
    with temporary_cluster(settings_of(options), tell, options.keep_logs) as cluster:
        with client_of(cluster) as client:
            pool = make_pool(client)
            before = usage(cluster)
            begun = time.time_ns()
            job_id = create(client, pool, options.count, task, options.command)
            state = follow(client, job_id, options.timeout)
            report(runtimes_of(client, job_id, options.count), begun)
        daemons = [part.name for part in cluster.components() if part.kind in DAEMONS]
        report_usage(before, usage(cluster), daemons, options.count)
    print(f"load average: {os.getloadavg()[0]:.1f}")
    print(f"job state: {job_pb2.JobState.Name(state)}")
    return 0 if state == job_pb2.SUCCEEDED else 1


def settings_of(options: argparse.Namespace) -> ClusterSettings:
    agents = tuple(agent(number) for number in range(options.agents))
    return ClusterSettings(ports="free", secure=options.secure, agents=agents)


def agent(number: int) -> Agent:
    first = FIRST_PORT + PORTS_EACH * number
    return Agent(
        hostname=f"host{number}",
        resources=f"cpus:4;mem:2048;disk:20000;ports:[{first}-{first + PORTS_EACH - 1}]",
    )


def report(runtimes: list[task_pb2.RuntimeInfo], begun: int) -> None:
    seconds = (max(parse_rfc3339(each.completionTime) for each in runtimes) - begun) / NANOSECONDS
    waits = sorted((parse_rfc3339(each.startTime) - begun) / NANOSECONDS for each in runtimes)
    print(f"processes per second: {len(runtimes) / seconds:.0f}")
    print(f"create to running p50 s: {waits[len(waits) // 2]:.2f}")
    print(f"create to running p99 s: {waits[len(waits) * 99 // 100]:.2f}")


if __name__ == "__main__":
    sys.exit(main())

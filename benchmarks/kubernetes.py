"""Pods per second through the real daemons and Kubernetes' own API server.

    python benchmarks/kubernetes.py [--count 300] [--agents 3]

A job of many `true` on kubelets that run pods as processes; counted from CreateJob to the last task's end.
Prints one figure per line: pods per second, CPU seconds and peak memory of each process, CPU of hostmgr per
pod, and the share of the API server and etcd in all CPU that was used. Needs the server, which
`make kubernetes-server` builds.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.processes import agent
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
from minicluster.settings import OWN, ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS, parse_rfc3339

SERVERS = ("etcd", "kube-apiserver")


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300, help="pods, each an instance of one job")
    parser.add_argument("--agents", type=int, default=3, help="nodes of 4 cpus each")
    parser.add_argument("--cpus", type=float, default=0.01, help="of a pod: how many run at once")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until the run is given up")
    parser.add_argument("--keep-logs", type=Path, help="copy the logs to this folder")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    task = task_pb2.ResourceConfig(cpuLimit=options.cpus, memLimitMb=4, diskLimitMb=4)
    nodes = tuple(agent(number) for number in range(options.agents))
    settings = ClusterSettings(ports="free", kubernetes=OWN, agents=nodes)
    with temporary_cluster(settings, tell, options.keep_logs) as cluster:
        with client_of(cluster) as client:
            pool = make_pool(client)
            before = usage(cluster)
            begun = time.time_ns()
            job_id = create(client, pool, options.count, task, "true")
            state = follow(client, job_id, options.timeout)
            ends = [parse_rfc3339(each.completionTime) for each in runtimes_of(client, job_id, options.count)]
        print(f"pods per second: {options.count * NANOSECONDS / (max(ends) - begun):.1f}")
        after = usage(cluster)
        daemons = [part.name for part in cluster.components() if part.kind in DAEMONS]
        report_usage(before, after, daemons, options.count)
    spent = {name: now.cpu - before[name].cpu for name, now in after.items()}
    print(f"hostmgr CPU microseconds per pod: {spent['hostmgr0'] / options.count * 1e6:.0f}")
    share = sum(spent[name] for name in SERVERS) / sum(spent.values())
    print(f"share of API server and etcd in all CPU: {share:.2f}")
    print(f"load average: {os.getloadavg()[0]:.1f}")
    print(f"job state: {job_pb2.JobState.Name(state)}")
    return 0 if state == job_pb2.SUCCEEDED else 1


if __name__ == "__main__":
    sys.exit(main())

"""Seconds that PlanJob takes (`job create --dry-run`), through real daemon processes with simulated agents.

    python benchmarks/planning.py --instances 100000 --hosts 5000 --kinds 1000

Prints one figure per line: for a job whose instances are all alike, and for one whose first instances are
all different, so that there are as many kinds of instances as --kinds tells. Of each, the median of --rounds
calls.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from benchmarks.throughput import client_of, make_pool, settings_of, tell
from mesos.v1 import mesos_pb2
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError
from peloton.private.plan import plan_pb2

CALL_SECONDS = 40.0
HOSTS_SECONDS = 120.0


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--hosts", type=int, default=5_000)
    parser.add_argument("--kinds", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    parser.set_defaults(storage="sqlite", membership="local", task_seconds=1.0)
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    with (
        temporary_cluster(settings_of(options), tell, options.keep_logs) as cluster,
        client_of(cluster) as client,
    ):
        pool = make_pool(client)
        wait_for_hosts(client, config_of(pool, options.hosts, 1))
        name = f"{options.hosts} hosts, {options.instances} instances"
        for kinds in (1, options.kinds):
            report(client, config_of(pool, options.instances, kinds), options.rounds, name)
    return 0


def config_of(pool: str, instances: int, kinds: int) -> job_pb2.JobConfig:
    """Return a job of `instances`, of which the first `kinds` - 1 differ from all others."""
    config = job_pb2.JobConfig(
        name="planned",
        type=job_pb2.BATCH,
        owningTeam="bench",
        instanceCount=instances,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(preemptible=True),
        defaultConfig=task_pb2.TaskConfig(
            resource=task_pb2.ResourceConfig(cpuLimit=0.1, memLimitMb=32, diskLimitMb=8),
            command=mesos_pb2.CommandInfo(shell=True, value="true"),
        ),
    )
    for instance in range(kinds - 1):
        resource = config.instanceConfig[instance].resource
        resource.CopyFrom(config.defaultConfig.resource)
        resource.cpuLimit += (1 + instance) / 1000
    return config


def plan(client: PelotonClient, config: job_pb2.JobConfig) -> plan_pb2.PlanJobResponse:
    answer: plan_pb2.PlanJobResponse = client.plan_svc.PlanJob(
        plan_pb2.PlanJobRequest(config=config), metadata=client.jobmgr_metadata, timeout=CALL_SECONDS
    )
    return answer


def wait_for_hosts(client: PelotonClient, config: job_pb2.JobConfig) -> None:
    """Wait until all hosts have made offers, so that an instance could be placed for each."""
    end = time.monotonic() + HOSTS_SECONDS
    while sum(each.plan.placed for each in plan(client, config).groups) < config.instanceCount:
        if time.monotonic() > end:
            raise PelotonError(f"not all hosts take tasks after {HOSTS_SECONDS:g} s")
        time.sleep(1.0)


def report(client: PelotonClient, config: job_pb2.JobConfig, rounds: int, name: str) -> None:
    """Plan a job a few times; print the median of the times, and how much was planned."""
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        answer = plan(client, config)
        seconds.append(time.perf_counter() - begun)
    placed = sum(each.plan.placed for each in answer.groups)
    prefix = f"{name}, {len(answer.groups)} kinds"
    print(f"{prefix}, seconds of PlanJob: {statistics.median(seconds):.2f}")
    print(f"{prefix}, instances with a place: {placed}", flush=True)
    for each in answer.groups:
        if each.plan.unplaced:
            print(f"{prefix}, unplaced: {each.plan.unplaced} ({each.plan.unplaced_reason})", file=sys.stderr)
            break


if __name__ == "__main__":
    sys.exit(main())

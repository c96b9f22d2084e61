"""What job managers that share the work cost: one without `shared`, one with it, and two, in turns.

    python -m benchmarks.sharing [--rounds N] [-- --tasks 10000 --hosts 1000 --jobs 20]

Each round runs jobs of --tasks tasks in all on --hosts simulated hosts, on a cluster of each kind; the order
changes by round. Prints the CPU of the job managers a task, of all of them together, and for each kind the
geometric mean of its ratio to one job manager without `shared`, with its 95 % confidence interval, and the
least and the greatest ratio. Before a measurement begins, each job manager owns its fair part of the shards.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc

from benchmarks.ratios import ratios, table
from benchmarks.throughput import TASK, client_of, create, follow, make_pool, tell, usage
from minicluster.cluster import Cluster
from minicluster.settings import ClusterSettings, DaemonSettings, Instances, Simulated
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0.job import job_pb2
from peloton.client import PelotonClient
from peloton.client.discovery import DiscoveryError
from peloton.errors import PelotonError
from peloton.model.shard import SHARDS
from peloton.private.jobmgr.sharing import sharing_pb2 as pb

SETTLE_SECONDS, POLL_SECONDS = 60.0, 0.25
CPU = "CPU microseconds per task, job managers"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cluster: how many job managers it has, and whether they share the work."""

    name: str
    jobmgrs: int
    shared: bool


ALONE, *OTHERS = KINDS = (
    Kind("one", 1, shared=False),
    Kind("one with shared", 1, shared=True),
    Kind("two with shared", 2, shared=True),
)
Figures = dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    return run_program("sharing", lambda: compare(options, measure))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    given = list(sys.argv[1:] if arguments is None else arguments)
    given = [each for each in given if each != "--"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=10_000, help="of all jobs together")
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=20, help="each is of the shard that its id has")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until a run is given up")
    options = parser.parse_args(given)
    for name in ("rounds", "tasks", "hosts", "jobs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: {getattr(options, name)} is not 1 or more")
    if options.tasks % options.jobs:
        parser.error(f"--tasks: {options.tasks} is not a multiple of --jobs, {options.jobs}")
    return options


def compare(options: argparse.Namespace, run: Callable[[Kind, argparse.Namespace], Figures]) -> int:
    """Run each kind once a round; print how they compare."""
    found: dict[Kind, list[Figures]] = {kind: [] for kind in KINDS}
    loads: list[float] = []
    for number in range(options.rounds):
        for kind in in_turn(number):
            loads.append(os.getloadavg()[0])
            figures = run(kind, options)
            found[kind].append(figures)
            tell(f"round {number + 1}, {kind.name}: load {loads[-1]:.1f}, {CPU}: {figures[CPU]:.0f}")
    for kind in OTHERS:
        print(f"{kind.name} (new) against {ALONE.name} (old):")
        print(table(ratios(found[ALONE], found[kind])))
    print(f"load before each run {min(loads):.1f}..{max(loads):.1f} on {os.cpu_count()} CPUs")
    return 0


def in_turn(number: int) -> tuple[Kind, ...]:
    """Return the kinds in the order of a round: each one is first, and last, as often as the others."""
    first = number % len(KINDS)
    return (*KINDS[first:], *KINDS[:first])


def measure(kind: Kind, options: argparse.Namespace) -> Figures:
    """Run jobs on a cluster of a kind. Raises PelotonError where one does not succeed."""
    with temporary_cluster(settings_of(kind, options), tell, None) as cluster, client_of(cluster) as client:
        if kind.shared:
            settle(client, kind.jobmgrs)
        pool = make_pool(client)
        before, begun = cpu(cluster), time.monotonic()
        each = options.tasks // options.jobs
        made = [create(client, pool, each, TASK, "true") for _ in range(options.jobs)]
        for job_id in made:
            if (state := follow(client, job_id, options.timeout)) != job_pb2.SUCCEEDED:
                raise PelotonError(f"job {job_id} is {job_pb2.JobState.Name(state)}")
        seconds = time.monotonic() - begun
        return {
            "tasks per second": options.tasks / seconds,
            CPU: (cpu(cluster) - before) / options.tasks * 1e6,
        }


def settings_of(kind: Kind, options: argparse.Namespace) -> ClusterSettings:
    return ClusterSettings(
        ports="free",
        instances=Instances(jobmgr=kind.jobmgrs),
        simulated=Simulated(agents=options.hosts),
        settings=DaemonSettings(jobmgr={"shared": kind.shared}),
    )


def cpu(cluster: Cluster) -> float:
    """CPU seconds of all job managers since they started."""
    return sum(used.cpu for name, used in usage(cluster).items() if name.startswith("jobmgr"))


def settle(client: PelotonClient, count: int) -> None:
    """Wait until each job manager owns its fair part. Raises PelotonError where that takes too long."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while not is_fair(client, count):
        if time.monotonic() > deadline:
            raise PelotonError(f"the shards are not divided fairly after {SETTLE_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def is_fair(client: PelotonClient, count: int) -> bool:
    """Return whether each of `count` job managers owns its part, and no shard moves."""
    try:
        owners = client.sharing_svc.ListOwners(pb.ListOwnersRequest(), timeout=10).owners
    except (grpc.RpcError, DiscoveryError):
        return False
    counts = [each.count for each in owners]
    rests = not any(each.going or each.leaving for each in owners)
    return rests and len(counts) == count and sum(counts) == SHARDS and max(counts) - min(counts) <= 1


if __name__ == "__main__":
    sys.exit(main())

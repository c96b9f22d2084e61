"""Write the trace and the cluster of a large simulation, as many tasks and hosts as are wanted.

    python -m benchmarks.large_trace --folder large
    peloton simulate --trace large/jobs.jsonl --cluster large/cluster.yaml

The work of the jobs is `--load` of what the cores of the hosts could do while jobs arrive. The rate of
arrivals rises and falls, so that tasks wait at its peaks. Jobs have 1 to 100 instances, one job of four is a
gang; an instance has 1 to 8 cores and 2,000 MB for each of them, and the durations are lognormal. The same
seed gives the same files.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

CORES, MEMORY_MB = 32, 128_000
"""Of each host."""
POOLS = ("research", "production", "reports", "tests")
SIZES = (1, 1, 2, 2, 5, 10, 20, 40, 100)
"""Instances of a job."""
CORES_OF_A_TASK = (1, 1, 2, 4, 8)
MEMORY_OF_A_CORE_MB = 2000
MEDIAN_SECONDS, SPREAD = 600.0, 1.0
"""Of the run of a task: the median, and the standard deviation of its logarithm."""
GANGS = 0.25
SWING, PERIOD_SECONDS = 0.4, 3600.0
"""By how much the rate of arrivals rises and falls, and how often: its peaks exceed what hosts can do."""
MEAN_CORES = sum(CORES_OF_A_TASK) / len(CORES_OF_A_TASK)
MEAN_SECONDS = MEDIAN_SECONDS * math.exp(SPREAD**2 / 2)


class Size(NamedTuple):
    """How large the simulation is."""

    tasks: int
    hosts: int
    load: float
    """The work of the jobs, as a part of what the hosts could do while they arrive."""
    seed: int = 0


def jobs(size: Size) -> Iterator[dict[str, Any]]:
    """Yield the lines of the trace, in the order of creation."""
    random = Random(size.seed)
    interval = MEAN_CORES * MEAN_SECONDS / (size.load * size.hosts * CORES)
    """Seconds between the arrivals of two tasks, in the mean."""
    left, now, number = size.tasks, 0.0, 0
    while left > 0:
        instances = min(random.choice(SIZES), left)
        cores = random.choice(CORES_OF_A_TASK)
        yield {
            "name": f"job-{number}",
            "submit": round(now, 3),
            "pool": f"/{random.choice(POOLS)}",
            "seconds": round(random.lognormvariate(math.log(MEDIAN_SECONDS), SPREAD), 3),
            "instances": instances,
            "gang": random.random() < GANGS,
            "cpu": cores,
            "memory": cores * MEMORY_OF_A_CORE_MB,
            "preemptible": True,
        }
        rate = 1 + SWING * math.sin(2 * math.pi * now / PERIOD_SECONDS)
        now += random.expovariate(rate / (instances * interval))
        left -= instances
        number += 1


def cluster(hosts: int) -> dict[str, Any]:
    """Return the cluster. Of its pools each has an equal part reserved, and may use all."""
    return {"hosts": [{"count": hosts, "cpu": CORES, "memory": MEMORY_MB}]}


def write(folder: Path, size: Size) -> int:
    """Write both files; return the number of jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.yaml").write_text(yaml.safe_dump(cluster(size.hosts)))
    count = 0
    with (folder / "jobs.jsonl").open("w", encoding="utf-8") as file:
        for job in jobs(size):
            file.write(json.dumps(job) + "\n")
            count += 1
    return count


def main() -> int:
    """Write the files that are wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("large"))
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--load", type=float, default=0.95, help="part of the cores that the jobs need")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    count = write(options.folder, Size(options.tasks, options.hosts, options.load, options.seed))
    print(f"jobs: {count}, tasks: {options.tasks}, hosts: {options.hosts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure how fast executors of Spark are there.

    python -m benchmarks.spark --executors 20

A cluster of our own agents runs an application with one executor, which then asks for more. Prints

    seconds from submit to first task: N
    executors per second: N

Seconds are those of the whole way: from the driver's request until all have registered. A JVM starts for
each, which takes seconds of CPU: the figures are those of the machine more than of Peloton.
`make spark` has to have been run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from minicluster.demo.training import POOL, POOL_SPEC
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.errors import Unavailable

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path(__file__).with_name("spark_program.py")
AGENTS, MEMORY_MB = 10, 1024
LONGEST_SECONDS = 900


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--executors", type=int, default=20, help="executors that are added (20)")
    parser.add_argument("--spark", default="4.1", choices=("3.5", "4.1"), help="version of Spark (4.1)")
    arguments = parser.parse_args()
    return run_program("benchmark", lambda: measure(arguments.executors, arguments.spark))


def measure(executors: int, version: str) -> int:
    """Print the figures; return the exit code."""
    place = ROOT / "build" / f"spark-{version}"
    homes = list(place.glob("lib/python3*/site-packages/pyspark"))
    if not homes:
        raise Unavailable(f"{place} has no Spark: `make spark` puts it there")
    each = -(-(executors + 2) // AGENTS)
    agents = tuple(
        Agent(
            hostname=f"host{n}",
            resources=f"cpus:{each};mem:{each * MEMORY_MB};disk:9999;ports:[{31000 + 9 * n}-{31008 + 9 * n}]",
        )
        for n in range(AGENTS)
    )
    with temporary_cluster(ClusterSettings(ports="free", agents=agents)) as cluster:
        python = str(place / "bin" / "python")
        own = {"SPARK_HOME": str(homes[0]), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        variables = {**os.environ, **cluster.urls(), **own}
        peloton = [sys.executable, "-m", "peloton.cli"]
        respool = [*peloton, "respool", "create", POOL, str(ROOT / POOL_SPEC)]
        subprocess.run(respool, env=variables, check=True, stdout=subprocess.DEVNULL)
        command = [*peloton, "spark", "submit", "--num-executors", "1", "--executor-memory", "512m"]
        command += ["--conf", "spark.peloton.executor.cpus=0.9", str(PROGRAM), str(executors)]
        done = subprocess.run(
            [*command, str(time.time())],
            env=variables,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return 1
    for line in done.stdout.splitlines():
        if re.match("(seconds from|executors per)", line):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

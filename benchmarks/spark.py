"""Measure how fast executors of Spark are there.

    python -m benchmarks.spark --executors 100

A cluster of our own agents runs an application with one executor, which then asks for more. Prints

    seconds from submit to first task: N
    executors per second: N
    executors launched per second: N
    CPU seconds of an executor: N

Executors per second are those of the whole way: from the driver's request until all have registered. A JVM
starts for each, which takes seconds of CPU, the last figure: this is a bound of the machine. Peloton's own
share is how many are launched per second: from the request until the agents have reported all as running.
With --launches this alone is measured: processes that sleep stand for JVMs, so that a small machine can start
100. `make spark` has to have been run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from minicluster.cluster import Cluster
from minicluster.demo.training import POOL
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.errors import Unavailable

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = Path(__file__).with_name("spark_program.py")
AGENTS, MEMORY_MB = 10, 1024
LONGEST_SECONDS = 1800
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
POOL_SPEC = """\
owningTeam: benchmark
policy: PriorityFIFO
resources:
  - {{kind: cpu, reservation: {cpus}, limit: {cpus}, share: 1}}
  - {{kind: memory, reservation: {memory}, limit: {memory}, share: 1}}
  - {{kind: disk, reservation: 0, limit: 0, share: 1}}
  - {{kind: gpu, reservation: 0, limit: 0, share: 1}}
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is measured."""

    executors: int
    """How many are added."""
    launches: bool
    """Whether processes that sleep stand for executors."""


@dataclass(frozen=True, slots=True)
class Launches:
    """What the agents have told of the executors that were added."""

    seconds: float
    """From the driver's request to the last executor that runs."""
    cpu_seconds: float
    """What all executors have used."""


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--executors", type=int, default=20, help="executors that are added (20)")
    parser.add_argument("--spark", default="4.1", choices=("3.5", "4.1"), help="version of Spark (4.1)")
    parser.add_argument("--launches", action="store_true", help="launch processes that sleep, not JVMs")
    arguments = parser.parse_args()
    wanted = Wanted(arguments.executors, arguments.launches)
    return run_program("benchmark", lambda: measure(wanted, arguments.spark))


def measure(wanted: Wanted, version: str) -> int:
    """Print the figures; return the exit code."""
    place = ROOT / "build" / f"spark-{version}"
    homes = list(place.glob("lib/python3*/site-packages/pyspark"))
    if not homes:
        raise Unavailable(f"{place} has no Spark: `make spark` puts it there")
    each = -(-(wanted.executors + 2) // AGENTS)
    agents = tuple(
        Agent(
            hostname=f"host{n}",
            resources=f"cpus:{each};mem:{each * MEMORY_MB};disk:9999;ports:[{31000 + 9 * n}-{31008 + 9 * n}]",
        )
        for n in range(AGENTS)
    )
    own = {
        "SPARK_HOME": str(homes[0]),
        "PYSPARK_PYTHON": str(place / "bin" / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (
        tempfile.TemporaryDirectory(prefix="peloton-spark-") as folder,
        temporary_cluster(ClusterSettings(ports="free", agents=agents)) as cluster,
    ):
        pool = Path(folder) / "pool.yaml"
        pool.write_text(POOL_SPEC.format(cpus=AGENTS * each, memory=AGENTS * each * MEMORY_MB))
        return _run(cluster, {**os.environ, **cluster.urls(), **own}, pool, wanted)


def _run(cluster: Cluster, variables: Mapping[str, str], pool: Path, wanted: Wanted) -> int:
    """Run the application, and print the figures; return the exit code."""
    peloton = [sys.executable, "-m", "peloton.cli"]
    respool = [*peloton, "respool", "create", POOL, str(pool)]
    subprocess.run(respool, env=variables, check=True, stdout=subprocess.DEVNULL)
    end = pool.with_name("end")
    command = [*peloton, "spark", "submit", "--num-executors", "1", "--executor-memory", "512m"]
    command += ["--conf", "spark.peloton.executor.cpus=0.9"]
    if wanted.launches:
        command += ["--conf", f"spark.executorEnv.JAVA_HOME={_sleeping_java(pool.parent)}"]
    command += [str(PROGRAM), str(wanted.executors)]
    log = pool.with_name("log")
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [*command, str(time.time()), str(end), *(["launches"] if wanted.launches else [])],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        asked, job = 0.0, ""
        for line in process.stdout or ():
            if re.match("(seconds from|executors per)", line):
                print(line, end="", flush=True)
            elif found := re.match(r"asked at ([\d.]+), job (\S+)", line):
                asked, job = float(found[1]), found[2]
            elif line.startswith("there"):
                found_launches = launches(cluster, job, asked, wanted.executors + 1)
                print(f"executors launched per second: {wanted.executors / found_launches.seconds:.2f}")
                if not wanted.launches:
                    each = found_launches.cpu_seconds / (wanted.executors + 1)
                    print(f"CPU seconds of an executor: {each:.2f}")
                end.touch()
        code = process.wait(LONGEST_SECONDS)
    if code:
        print(log.read_text(), file=sys.stderr)
    return 1 if code else 0


def _sleeping_java(folder: Path) -> Path:
    """Make a Java that sleeps; return its home."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\nexec sleep {LONGEST_SECONDS}\n")
    java.chmod(0o755)
    return folder


def launches(cluster: Cluster, job: str, asked: float, executors: int) -> Launches:
    """Wait until all executors of a job run.

    Peloton is asked when they began, and the processes what they have used. Raises Unavailable where they do
    not run in time.
    """
    urls = cluster.urls()
    client = PelotonClient("benchmark", jm_url=urls["JOBMGR_URL"], rm_url=urls["RESMGR_URL"])
    try:
        request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job))
        end = time.monotonic() + LONGEST_SECONDS
        began: list[str] = []
        while len(began) < executors + 1:  # instance 0 is no executor
            if time.monotonic() > end:
                raise Unavailable(f"{len(began)} of {executors + 1} instances run after {LONGEST_SECONDS} s")
            time.sleep(0.1)
            answer = client.task_svc.List(request, metadata=client.jobmgr_metadata, timeout=60)
            runtimes = [task.runtime for task in answer.result.value.values()]
            began = [each.startTime for each in runtimes if each.state == task_pb2.RUNNING]
        last = max(datetime.fromisoformat(text).timestamp() for text in began)
    finally:
        client.close()
    return Launches(last - asked, sum(cpu_seconds(folder, job) for folder in Path("/proc").glob("[0-9]*")))


def cpu_seconds(folder: Path, job: str) -> float:
    """Return the CPU that a process has used, 0 where it is no executor of the job."""
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return 0.0
    ticks = int(fields[11]) + int(fields[12]) if EXECUTOR in words and job.encode() in words else 0
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())

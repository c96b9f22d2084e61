"""`make demo-spark`: the same tables by one process and by Spark on a cluster.

A cluster comes up from nothing. The tables are sorted, joined and aggregated by one process that no cluster
runs, by executors with a driver here, and with one on the cluster; the rows are compared.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minicluster.demo.training import POOL, POOL_SPEC, called, report
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.errors import NotFound, PelotonError, Unavailable

SCRIPT = Path("examples") / "spark" / "tables.py"
ORDERS, PARTS, EXECUTORS = 20_000, 4, 2
RESULTS = ("sort", "join", "aggregation")
_AGENTS = tuple(
    Agent(
        hostname=f"host{n}",
        resources=f"cpus:4;mem:4000;disk:20000;ports:[{31000 + 100 * n}-{31099 + 100 * n}]",
    )
    for n in range(3)
)


@dataclass(frozen=True, slots=True)
class Done:
    """What one application has printed, and how long it took."""

    where: str
    executors: int
    rows: Sequence[str]
    seconds: float


def main() -> int:
    """Run the demo from the project's folder, with Spark's environment as argument; return the exit code."""
    if not SCRIPT.is_file():
        print(f"demo: {SCRIPT.absolute()} is not there: run it from the project's folder", file=sys.stderr)
        return 1
    return run_program("demo", lambda: demonstrate(Path(sys.argv[1]).absolute()))


def demonstrate(place: Path) -> int:
    """Run the demo; return the exit code. The cluster is gone afterwards in any case."""
    own = _variables(place)
    program = [str(SCRIPT.absolute()), str(ORDERS), str(PARTS)]
    report("One process computes the tables on this machine:")
    spark_submit = str(Path(own["SPARK_HOME"]) / "bin" / "spark-submit")
    found = [_done("one process", 0, [spark_submit, "--master", "local[2]", *program], own)]
    report("\nA Mesos master, three agents and the four daemons of Peloton come up:")
    settings = ClusterSettings(ports="free", agents=_AGENTS)
    with temporary_cluster(settings, lambda line: report(f"  {line}")) as cluster:
        try:
            urls = {**own, **cluster.urls()}
            peloton = [sys.executable, "-m", "peloton.cli"]
            called([*peloton, "respool", "create", POOL, str(POOL_SPEC)], urls)
            for where, mode in (("driver here", "client"), ("driver on it", "cluster")):
                options = ["--deploy-mode", mode, "--num-executors", str(EXECUTORS)]
                options += ["--executor-memory", "512m", "--driver-memory", "512m"]
                command = [*peloton, "spark", "submit", *options, *program]
                found.append(_done(where, EXECUTORS, command, urls))
            called([*peloton, "job", "query"], urls)
        finally:
            report("\nThe cluster goes down.")
    for line in table(found):
        report(line)
    return 0 if all(each.rows == found[0].rows for each in found) else 1


def _variables(place: Path) -> dict[str, str]:
    """Return the environment of Spark. Raises NotFound."""
    homes = list(place.glob("lib/python3*/site-packages/pyspark"))
    if not homes:
        raise NotFound(f"{place} has no Spark: `make spark` puts it there")
    python = str(place / "bin" / "python")
    return {"SPARK_HOME": str(homes[0]), "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}


def _done(where: str, executors: int, command: Sequence[str], variables: Mapping[str, str]) -> Done:
    """Run an application; return what it has printed. Show its log where it fails. Raises PelotonError."""
    shown = ["peloton", *command[3:]] if command[1:3] == ["-m", "peloton.cli"] else command
    report(f"\n$ {shlex.join(shown)}")
    begun = time.monotonic()
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        report(done.stderr)
        raise Unavailable(f"`{shlex.join(shown)}` ended with {done.returncode}")
    rows = [line for line in done.stdout.splitlines() if line.startswith(RESULTS)]
    if not rows:
        raise PelotonError("the application has printed no rows")
    for line in rows:
        if "hashes" in line:
            report(line)
    return Done(where, executors, rows, time.monotonic() - begun)


def table(found: Sequence[Done]) -> list[str]:
    """Return what happened, as lines."""
    lines = ["", f"{'where':<14}{'executors':>10}{'rows':>8}{'equal':>8}{'seconds':>10}"]
    for each in found:
        equal = sum(a == b for a, b in zip(each.rows, found[0].rows, strict=False))
        lines.append(
            f"{each.where:<14}{each.executors:>10}{len(each.rows):>8}{equal:>8}{each.seconds:>10.1f}"
        )
    same = sum(each.rows == found[0].rows for each in found)
    return [*lines, "", f"demo: {same} of {len(found)} applications have given the same rows"]


if __name__ == "__main__":
    sys.exit(main())

"""`make demo-ml`: one network trained by one, two and four processes, which learn the same.

A cluster comes up from nothing; each training is one `peloton run`. The table compares the losses with that
of one process that no cluster runs.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from minicluster.settings import ClusterSettings
from minicluster.temporary import run_program, temporary_cluster
from peloton.errors import PelotonError, Unavailable

SCRIPT = Path("examples") / "training" / "train_jax.py"
POOL, POOL_SPEC = "/DefaultResPool", Path("examples") / "default_respool.yaml"
PROCESSES = (1, 2, 4)
STEPS = 200
EQUAL = 1e-6
"""Differences of the losses that count as none."""


@dataclass(frozen=True, slots=True)
class Training:
    """How one training ended."""

    where: str
    processes: int
    loss: float
    seconds: float


def main() -> int:
    """Run the demo from the project's folder, with the Python of JAX as an argument; return the exit code."""
    if not SCRIPT.is_file():
        print(f"demo: {SCRIPT.absolute()} is not there: run it from the project's folder", file=sys.stderr)
        return 1
    return run_program("demo", lambda: demonstrate(str(Path(sys.argv[1]).absolute())))


def demonstrate(python: str) -> int:
    """Run the demo; return the exit code. The cluster is gone afterwards in any case."""
    report("One process trains a network on this machine:")
    command = [python, str(SCRIPT.absolute()), "--steps", str(STEPS)]
    found = [trained("this machine", 1, command, {})]
    report("\nA Mesos master, three agents and the four daemons of Peloton come up:")
    with temporary_cluster(ClusterSettings(ports="free"), lambda line: report(f"  {line}")) as cluster:
        try:
            peloton = [sys.executable, "-m", "peloton.cli"]
            called([*peloton, "respool", "create", POOL, str(POOL_SPEC)], cluster.urls())
            for processes in PROCESSES:
                run = ["run", "--framework", "jax", "-n", str(processes), "--", *command]
                found.append(trained("cluster", processes, [*peloton, *run], cluster.urls()))
        finally:
            report("\nThe cluster goes down.")
    for line in table(found):
        report(line)
    return 0 if all(abs(each.loss - found[0].loss) <= EQUAL for each in found) else 1


def trained(where: str, processes: int, command: Sequence[str], urls: Mapping[str, str]) -> Training:
    """Train, and return how it ended. Raises PelotonError."""
    begun = time.monotonic()
    output = called(command, urls)
    losses = re.findall(r"final loss ([0-9.]+)", output)
    if len(losses) != 1:
        raise PelotonError(f"the training told {len(losses)} losses, not one")
    return Training(where, processes, float(losses[0]), time.monotonic() - begun)


def called(command: Sequence[str], urls: Mapping[str, str]) -> str:
    """Print a command, run it, and return what it has printed. Raises PelotonError where it fails."""
    shown = ["peloton", *command[3:]] if command[1:3] == ["-m", "peloton.cli"] else command
    report(f"\n$ {shlex.join(shown)}")
    kept = []
    with subprocess.Popen(command, env={**os.environ, **urls}, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            kept.append(line)
    if process.returncode:
        raise Unavailable(f"`{shlex.join(shown)}` ended with {process.returncode}")
    return "".join(kept)


def table(found: Sequence[Training]) -> list[str]:
    """Return what happened, as lines."""
    lines = ["", f"{'where':<14}{'processes':>10}{'final loss':>18}{'difference':>14}{'seconds':>10}"]
    lines += [
        f"{each.where:<14}{each.processes:>10}{each.loss:>18.12f}{each.loss - found[0].loss:>14.1e}"
        f"{each.seconds:>10.1f}"
        for each in found
    ]
    equal = sum(abs(each.loss - found[0].loss) <= EQUAL for each in found)
    return [*lines, "", f"demo: {equal} of {len(found)} losses are equal to {EQUAL:.0e}"]


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

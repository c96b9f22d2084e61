"""What a minicluster costs that does nothing: `peloton minicluster up` with its defaults, then no call.

    python benchmarks/idle.py [--seconds 60] [--settle 20] [--secure]

Prints one figure per line: seconds until the command returned; by process and in all the percent of a core,
wake-ups per second (voluntary context switches of all threads), and memory. Pages that processes share count
once in all: the sum of their proportional set sizes (PSS). Resident set sizes (RSS) count them once for each.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from minicluster.cluster import Cluster
from minicluster.processes import load, uninterrupted
from minicluster.temporary import run_program
from peloton.errors import PelotonError

KB_PER_MB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one process, in MB."""

    pss: float
    rss: float


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one process since its start: CPU seconds, and how often its threads waited."""

    cpu: float
    waits: int


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long it is watched")
    parser.add_argument("--settle", type=float, default=20.0, help="seconds between its start and that")
    parser.add_argument("--secure", action="store_true", help="a secure cluster")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="peloton-") as folder, started(Path(folder), options) as cluster:
        time.sleep(options.settle)
        pids = {part.name: pid_of(cluster, part.name) for part in cluster.components()}
        before, begun = {name: spent(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(options.seconds)
        after, seconds = {name: spent(pid) for name, pid in pids.items()}, time.monotonic() - begun
        held = {name: memory(pid) for name, pid in pids.items()}
        rates = {
            name: (
                100 * (after[name].cpu - before[name].cpu) / seconds,
                (after[name].waits - before[name].waits) / seconds,
            )
            for name in pids
        }
    for name in pids:
        report(name, *rates[name], held[name])
    share, wakeups = (sum(column) for column in zip(*rates.values(), strict=True))
    pss, rss = sum(each.pss for each in held.values()), sum(each.rss for each in held.values())
    report("all", share, wakeups, Memory(pss, rss))
    print(f"load average: {os.getloadavg()[0]:.1f}")
    return 0


@contextmanager
def started(folder: Path, options: argparse.Namespace) -> Iterator[Cluster]:
    """Bring a cluster up as a user does; take it down at the end. Raise PelotonError where it fails."""
    cluster = Cluster(folder / "cluster")
    command = [sys.executable, "-m", "peloton.cli", "minicluster", "up", "--free-ports"]
    command += ["--dir", str(cluster.directory), *(["--secure"] if options.secure else [])]
    begun = time.monotonic()
    try:
        # The clusters that run are registered in the home directory.
        done = subprocess.run(
            command, env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PelotonError(done.stderr.strip() or f"`minicluster up` ended with {done.returncode}")
        print(f"seconds to start: {time.monotonic() - begun:.2f}", flush=True)
        yield cluster
    finally:
        with uninterrupted():
            cluster.down()


def pid_of(cluster: Cluster, name: str) -> int:
    process = load(cluster.layout.run_of(name))
    assert process is not None, f"{name} is not there"
    return process.pid


def spent(pid: int) -> Spent:
    times = psutil.Process(pid).cpu_times()
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return Spent(times.user + times.system, sum(waits(thread / "status") for thread in tasks))


def waits(status: Path) -> int:
    """Return how often a thread gave up its CPU by itself: each time it is woken again."""
    return fields(status)["voluntary_ctxt_switches"]


def memory(pid: int) -> Memory:
    found = fields(Path(f"/proc/{pid}/smaps_rollup"))
    return Memory(found["Pss"] / KB_PER_MB, found["Rss"] / KB_PER_MB)


def fields(file: Path) -> dict[str, int]:
    """Return the numbers of a file of /proc with lines `name: number [unit]`."""
    pairs = (line.partition(":") for line in file.read_text().splitlines())
    words = {name: text.split() for name, _, text in pairs}
    return {name: int(each[0]) for name, each in words.items() if each and each[0].isdecimal()}


def report(name: str, share: float, wakeups: float, held: Memory) -> None:
    print(f"{name} % of a core: {share:.2f}")
    print(f"{name} wake-ups per second: {wakeups:.1f}")
    print(f"{name} PSS MB: {held.pss:.1f}")
    print(f"{name} RSS MB: {held.rss:.1f}")


if __name__ == "__main__":
    sys.exit(main())

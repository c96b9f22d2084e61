"""Programs on a cluster by `peloton run`, as the tests of workloads see them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from minicluster.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "training"
SECONDS = 300.0


def python_of(environment: str) -> Path:
    """Return the Python of an environment that make has made for programs of others."""
    return ROOT / "build" / environment / "bin" / "python"


def peloton(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "peloton.cli", *words],
        env=variables(cluster),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def variables(cluster: Cluster) -> dict[str, str]:
    """Return the environment in which `peloton` finds the cluster."""
    return {**os.environ, **cluster.urls(), "COLUMNS": "200"}


def loss(text: str) -> float:
    """Return the loss that a training tells, once."""
    [found] = re.findall(r"final loss ([0-9.]+)", text)
    return float(found)


def alone(python: Path, script: Path, *words: str) -> str:
    """Return what a program writes as one process that no cluster runs."""
    done = subprocess.run(
        [python, script, *words], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass
class Program:
    """A `peloton run` under way, and what it has written so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def job(self) -> str:
        """The id of the job, once it is told."""
        wait_for(lambda: bool(re.search(r"peloton: job \S+", self.text)), 60, lambda: self.text)
        found = re.search(r"peloton: job (\S+)", self.text)
        assert found is not None
        return found[1]

    def wait(self, seconds: float = SECONDS) -> int:
        """Return the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code


@contextmanager
def running(cluster: Cluster, *words: str) -> Iterator[Program]:
    """Start `peloton run`; whatever happens, its job is stopped in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "peloton.cli", "run", *words],
        env=variables(cluster),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    program = Program(process)
    try:
        yield program
    finally:
        if process.poll() is None:
            peloton(cluster, "job", "stop", program.job)
            process.kill()
        program.wait()
        print(program.text)  # what a failure shows


def wait_for(holds: Callable[[], bool], seconds: float, story: Callable[[], str] = lambda: "") -> float:
    """Wait until something holds; return the seconds that it took."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() < begun + seconds, f"did not come to hold in {seconds:g} s: {story()}"
        time.sleep(0.05)
    return time.monotonic() - begun

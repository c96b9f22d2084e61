"""Training by JAX on a real cluster: what one, two and four processes learn is the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.demo.training import EQUAL, POOL, POOL_SPEC
from minicluster.settings import ClusterSettings
from minicluster.temporary import temporary_cluster

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "build" / "workloads" / "bin" / "python"
SCRIPT = ROOT / "examples" / "training" / "train_jax.py"
STEPS = ("--steps", "120")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(ClusterSettings(ports="free")) as found:
        assert peloton(found, "respool", "create", POOL, str(ROOT / POOL_SPEC)).returncode == 0
        yield found


def peloton(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "peloton.cli", *words],
        env={**os.environ, **cluster.urls(), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def loss(text: str) -> float:
    [found] = re.findall(r"final loss ([0-9.]+)", text)
    return float(found)


@pytest.fixture(scope="module")
def alone() -> float:
    """The loss of one process that no cluster runs."""
    done = subprocess.run([PYTHON, SCRIPT, *STEPS], capture_output=True, text=True, timeout=300, check=True)
    return loss(done.stdout)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_learn_what_one_does(cluster: Cluster, alone: float, processes: int) -> None:
    words = ("run", "--framework", "jax", "-n", str(processes), "--", str(PYTHON), str(SCRIPT), *STEPS)
    done = peloton(cluster, *words)
    assert done.returncode == 0, done.stderr
    assert abs(loss(done.stdout) - alone) <= EQUAL
    begun = sorted(re.findall(rf"process (\d+) of {processes}", done.stdout))
    assert begun == [str(rank) for rank in range(processes)]


def test_a_script_that_fails_ends_the_run_with_its_code(cluster: Cluster) -> None:
    words = ("run", "--framework", "jax", "-n", "2", "--", str(PYTHON), "-c", "import sys; sys.exit(9)")
    assert peloton(cluster, *words).returncode == 9

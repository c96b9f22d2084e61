"""The first steps of the pages on Spark, training and Dask, each from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from minicluster.cluster import Cluster

from .runs import ROOT, peloton

SECONDS = 900.0
"""For all commands of a page, also those that install packages."""
COUNTS = "        0|333334|"


def followed(cluster: Cluster, page: str, program: str, folder: Path) -> str:
    """Write the program of a page and run its commands; return what they print.

    The line that asks a minicluster for its variables is left out: the cluster here is another one.
    """
    text = (ROOT / "docs" / page).read_text()
    [code] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (folder / program).write_text(code)
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [first] = [number for number, block in enumerate(blocks) if block.startswith("eval ")]
    commands = [re.sub(r"^eval .*\n", "", blocks[first]), blocks[first + 1]]
    done = subprocess.run(
        ["bash", "-euc", "".join(commands)],
        env={
            **os.environ,
            **cluster.urls(),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PELOTON": str(ROOT),
            "DASK_CONFIG": str(folder / "config"),  # else Dask writes to the user's
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert "RUNNING" not in peloton(cluster, "job", "query", "-s", "RUNNING").stdout
    return done.stdout


def test_spark(cluster: Cluster, tmp_path: Path) -> None:
    assert followed(cluster, "spark.md", "remainders.py", tmp_path).count(COUNTS) == 2


def test_training(cluster: Cluster, tmp_path: Path) -> None:
    printed = followed(cluster, "training.md", "total.py", tmp_path).splitlines()
    ranks = [f"{rank} | process {rank} of 3: all together have 6" for rank in range(3)]
    assert sorted(line for line in printed if "all together" in line) == ranks


def test_dask(cluster: Cluster, tmp_path: Path) -> None:
    printed = followed(cluster, "dask.md", "mean.py", tmp_path)
    assert re.fullmatch(r"-?\d+\.\d{4}", printed.splitlines()[-1])

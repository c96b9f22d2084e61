"""What real daemons tell is wrong though they work, as `peloton status` shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from .conftest import Harness

pytestmark = pytest.mark.extended
MOST_TURNS = 10
"""A process that is killed before the others have seen it does not count."""


def problems(harness: Harness) -> list[str]:
    """Return what `peloton status` names."""
    run = subprocess.run(
        [sys.executable, "-m", "peloton.cli", "status", "-j"],
        env={**os.environ, "PELOTON_MINICLUSTER_DIR": str(harness.cluster.directory)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode in (0, 3), run.stderr
    return [each["text"] for each in json.loads(run.stdout)["problems"]]


@pytest.mark.parametrize("name", ["placement0", "resmgr0"])
def test_a_daemon_that_starts_again_and_again_is_named(harness: Harness, name: str) -> None:
    turns, told = 0, list[str]()
    while not told and turns < MOST_TURNS:
        told = [text for text in problems(harness) if text.startswith(f"{name} has started ")]
        if not told:
            turns += 1
            harness.cluster.kill([name])
            harness.cluster.start([name])
    assert told and turns >= 3, (turns, told)

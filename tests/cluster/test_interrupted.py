"""What is ended while a cluster comes up leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


def processes(folder: Path) -> list[int]:
    """Those that were started with the folder in their command line, or have it as their own folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in line:
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("program", ["up", "demo"])
def test_nothing_runs_on(tmp_path: Path, program: str, number: signal.Signals) -> None:
    commands: dict[str, Sequence[str]] = {
        "up": ["peloton.cli", "minicluster", "up", "--free-ports", "--dir", str(tmp_path / "cluster")],
        "demo": ["peloton.minicluster.demo"],
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *commands[program]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = ""
    while "mesos-master answers" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    assert processes(tmp_path)
    process.send_signal(number)
    said += process.communicate(timeout=60)[0]
    left = [pid for pid in processes(tmp_path) if pid != process.pid]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert (left, process.returncode) == ([], 130), said
    assert "Traceback" not in said

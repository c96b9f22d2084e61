"""What is ended while a cluster comes up leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PROGRAMS: dict[str, tuple[Sequence[str], str]] = {
    "up": (
        ["-m", "peloton.cli", "minicluster", "up", "--free-ports", "--dir", "{folder}/cluster"],
        "mesos-master answers",
    ),
    "demo": (["-m", "minicluster.demo.batch"], "mesos-master answers"),
    "demo_elastic": (["-m", "minicluster.demo.elastic"], "team 1 runs"),
    "processes": (["benchmarks/processes.py", "--count", "100"], "mesos-master answers"),
    "faults": (
        [
            "-m",
            "tests.faults",
            "--quick",
            "--membership=local",
            "--only=stop-jobmgr",
            "--dir={folder}/faults",
        ],
        "up after",
    ),
    "throughput": (["benchmarks/throughput.py", "--tasks", "100", "--hosts", "10"], "mesos-master answers"),
    "recovery": (["benchmarks/recovery.py", "--tasks", "200", "--running", "20"], "mesos-master answers"),
}
"""Arguments of Python, and what is said when processes of the cluster run."""


def processes(folder: Path) -> list[int]:
    """Those that were started with the folder in their command line, or have it as their own folder."""
    others = (each for each in psutil.process_iter(["pid", "cmdline"]) if each.pid != os.getpid())
    return [each.pid for each in others if str(folder) in "\0".join(each.info["cmdline"] or ())]


def begun(program: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """The program when its cluster comes up, and what it said until then."""
    arguments, sign = PROGRAMS[program]
    process = subprocess.Popen(
        [sys.executable, *(each.format(folder=folder) for each in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = ""
    while sign not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    assert processes(folder)
    return process, said


def end_left(process: subprocess.Popen[str], folder: Path) -> list[int]:
    """Ends what still runs, so that a failing test does not add to it; returns what that was."""
    left = [pid for pid in processes(folder) if pid != process.pid]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


@pytest.mark.parametrize(
    ("program", "number"),
    [
        *(("up", number) for number in ENDING),
        # The others share what hears the signals, `run_program`.
        ("demo", signal.SIGHUP),
        ("demo_elastic", signal.SIGTERM),
        ("processes", signal.SIGTERM),
        ("throughput", signal.SIGINT),
    ],
)
def test_no_process_is_left_after_an_interrupt(tmp_path: Path, program: str, number: signal.Signals) -> None:
    process, said = begun(program, tmp_path)
    process.send_signal(number)
    said += process.communicate(timeout=60)[0]
    assert (end_left(process, tmp_path), process.returncode) == ([], 130), said
    assert "Traceback" not in said


@pytest.mark.parametrize("program", ["up", "throughput", "faults"])
def test_no_process_is_left_after_two_interrupts(tmp_path: Path, program: str) -> None:
    process, said = begun(program, tmp_path)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    said += process.communicate(timeout=60)[0]
    assert end_left(process, tmp_path) == [], said

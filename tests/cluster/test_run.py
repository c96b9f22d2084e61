"""`peloton run` on a real cluster: output by rank, exit codes, and Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, wait_for

SECONDS = 120
SAVES = "trap 'echo saved; exit 1' TERM; echo ready; while :; do sleep 0.05; done"
IGNORES = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


@dataclass
class Program:
    """A `peloton run` under way; what it has written so far."""

    process: subprocess.Popen[str]
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        pairs = ((self.process.stdout, self.out), (self.process.stderr, self.err))
        self._readers = [threading.Thread(target=_read, args=pair) for pair in pairs]
        for reader in self._readers:
            reader.start()

    @property
    def job(self) -> str:
        """The job, as standard error names it."""
        found = re.search(r"peloton: job ([0-9a-f-]{36})", "".join(self.err))
        assert found, self.err
        return found[1]

    def wait(self) -> int:
        code = self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)
        return code

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def await_text(self, text: str) -> None:
        wait_for(lambda: text in self.text, SECONDS, lambda: self.text)

    @property
    def text(self) -> str:
        return "".join([*self.out, *self.err])


def _read(stream: Iterator[str], held: list[str]) -> None:
    for line in stream:
        held.append(line)


class Runner:
    """Starts programs by `peloton run`."""

    def __init__(self, harness: Harness) -> None:
        self.started: list[Program] = []
        pools = harness.client.respool_svc.Query(respool_pb2.QueryRequest()).resourcePools
        self.pool = next(each.path.value for each in pools if each.id.value == harness.pool)
        self.variables = {**os.environ, **harness.cluster.urls(), "COLUMNS": "200"}

    def __call__(self, *arguments: str) -> Program:
        words = ["--pool", self.pool, "--cpus", "0.1", "--mem", "32", *arguments]
        process = subprocess.Popen(
            [sys.executable, "-m", "peloton.cli", "run", *words],
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(Program(process))
        return self.started[-1]


@pytest.fixture
def run(harness: Harness) -> Iterator[Runner]:
    held = Runner(harness)
    yield held
    for program in held.started:
        program.process.kill()
        program.wait()


def test_output_comes_by_rank_and_the_code_is_zero(run: Runner) -> None:
    program = run("-n", "3", "--", "sh", "-c", "echo out $PELOTON_INSTANCE_ID; echo err >&2; pwd")
    assert program.wait() == 0, program.err
    assert sorted(program.out) == sorted(
        line for i in range(3) for line in (f"{i} | out {i}\n", f"{i} | {Path.cwd()}\n")
    )
    assert sorted(line for line in program.err if "|" in line) == [f"{i} | err\n" for i in range(3)]


def test_one_process_writes_as_it_would_here(run: Runner) -> None:
    program = run("--env", "WORD=hello", "--folder", "", "--", "sh", "-c", "printf $WORD; pwd | grep -c runs")
    assert (program.wait(), program.out) == (0, ["hello1\n"])


@pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_the_code_is_that_of_the_process_that_failed(run: Runner, end: str, code: int) -> None:
    failing = f"if [ $PELOTON_INSTANCE_ID = 1 ]; then {end}; fi; sleep 600"
    program = run("-n", "2", "--", "sh", "-c", failing)
    assert program.wait() == code, program.err


def test_ctrl_c_stops_the_processes_with_their_grace_period(run: Runner, harness: Harness) -> None:
    program = run("--grace", "30", "--", "sh", "-c", SAVES)
    program.await_text("ready")
    program.interrupt()
    assert program.wait() == 130
    assert program.out == ["ready\n", "saved\n"]
    assert harness.runtime(program.job).state == job_pb2.KILLED


def test_ctrl_c_again_leaves(run: Runner, harness: Harness) -> None:
    program = run("--grace", "300", "--", "sh", "-c", IGNORES)
    program.await_text("ready")
    program.interrupt()
    program.await_text("stopping")
    program.interrupt()
    assert program.wait() == 130
    assert "left: job" in program.text
    assert harness.tasks(program.job)[0].runtime.state in (task_pb2.KILLING, task_pb2.RUNNING)
    kill_processes(program.job)
    harness.ended(program.job)


def kill_processes(job: str) -> None:
    """End processes of a job that ignore SIGTERM."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found = f"PELOTON_JOB_ID={job}".encode() in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if found:
            os.kill(int(folder.name), signal.SIGKILL)


def test_a_process_that_runs_again_is_followed(run: Runner) -> None:
    command = "echo $MESOS_TASK_ID; case $MESOS_TASK_ID in *-1) exit 3;; esac"
    program = run("--maxFailures", "2", "--folder", "", "--", "sh", "-c", command)
    assert program.wait() == 0, program.err
    assert [line.split("-")[-1] for line in program.out] == ["1\n", "2\n"]


@pytest.mark.parametrize("words", [("--gpus", "-1"), ("--env", "NOT_SET_HERE"), ("-n", "0")])
def test_what_makes_no_sense_is_refused(run: Runner, words: tuple[str, ...]) -> None:
    assert run(*words, "--", "true").wait() == 2


def test_it_tells_why_processes_wait(run: Runner) -> None:
    first = run("-n", "3", "--cpus", "3.9", "--", "sh", "-c", "echo ready; exec sleep 600")
    first.await_text("2 | ready")
    second = run("-n", "2", "--cpus", "0.2", "--", "sh", "-c", "sleep 2")
    second.await_text("2 processes wait: ")
    assert "11.7 cores + gang 0.4 cores > " in second.text and "12 cores in /test" in second.text
    first.interrupt()
    second.await_text("all 2 processes run now")
    assert (first.wait(), second.wait()) == (130, 0)
    assert second.text.count("11.7 cores") == 1, "it is told once"

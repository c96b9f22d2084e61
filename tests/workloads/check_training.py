"""Training on a real cluster: what several processes learn is what one does, whatever becomes of them."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from minicluster.cluster import Cluster
from minicluster.credentials import client_identity
from minicluster.demo.training import EQUAL
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import LocalDiscovery, PelotonClient
from peloton.model.ids import parse_mesos_task_id

from .runs import EXAMPLES, Program, alone, loss, peloton, python_of, running, wait_for

KILLS = int(os.environ.get("PELOTON_KILLS", "3"))
"""How often a member is killed; the issue's figure is 20."""
AGAIN_SECONDS = 10.0
"""How long it takes at most from a member's death until all members run again."""
MEMBERS = 3
PAUSE_SECONDS = 0.05
STEPS_OF_A_ROUND = 80
AFTER_THE_START = (0.0, 6.0)
"""Seconds of every other round until the kill, from the start of the processes, which import for long."""
AFTER_A_CHECKPOINT = (0.0, 2.0)
"""Seconds of the other rounds, from the first checkpoint that the round itself has written."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework, its example, and the Python that runs it."""

    name: str
    script: Path
    python: Path
    launcher: tuple[str, ...] = ()
    """What starts the Python of each member on a cluster."""

    @property
    def words(self) -> tuple[str, ...]:
        """What runs the example."""
        return *self.launcher, str(self.python), str(self.script)


JAX = Framework("jax", EXAMPLES / "train_jax.py", python_of("workloads"))
TENSORFLOW = Framework("tensorflow", EXAMPLES / "train_tensorflow.py", python_of("tensorflow"))
SYSTEM = Path("/usr/bin/python3")
MPI = Framework("mpi", EXAMPLES / "train_mpi.py", SYSTEM, (str(SYSTEM), str(EXAMPLES / "mpi_member.py")))
STEPS = 120


@pytest.fixture(scope="module")
def losses() -> dict[str, float]:
    """The losses of single processes that no cluster runs."""
    return {
        each.name: loss(alone(each.python, each.script, "--steps", str(STEPS))) for each in (JAX, TENSORFLOW)
    }


def test_both_frameworks_learn_the_same(losses: dict[str, float]) -> None:
    assert abs(losses["jax"] - losses["tensorflow"]) <= EQUAL


@pytest.mark.parametrize(
    ("framework", "processes"), [(JAX, 1), (JAX, 2), (JAX, 4), (TENSORFLOW, 2), (TENSORFLOW, 3)]
)
def test_processes_learn_what_one_does(
    cluster: Cluster, losses: dict[str, float], framework: Framework, processes: int
) -> None:
    words = ("--framework", framework.name, "-n", str(processes), "--mem", "750", "--", *framework.words)
    done = peloton(cluster, "run", *words, "--steps", str(STEPS))
    assert done.returncode == 0, done.stderr
    assert abs(loss(done.stdout) - losses[framework.name]) <= EQUAL
    begun = sorted(re.findall(rf"process (\d+) of {processes}", done.stdout))
    assert begun == [str(rank) for rank in range(processes)]


def test_a_script_that_fails_ends_the_run_with_its_code(cluster: Cluster) -> None:
    words = ("run", "--framework", "jax", "-n", "2", "--", JAX.words[0], "-c", "import sys; sys.exit(9)")
    assert peloton(cluster, *words).returncode == 9


@pytest.mark.parametrize("framework", [JAX, TENSORFLOW, MPI], ids=lambda each: each.name)
def test_a_gang_whose_members_are_killed_continues_from_its_checkpoint(
    cluster: Cluster, tmp_path: Path, framework: Framework
) -> None:
    chance, took, last = random.Random(5), list[float](), 0
    steps = STEPS_OF_A_ROUND * (KILLS + 1)
    wanted = loss(alone(framework.python, framework.script, "--steps", str(steps)))
    checkpoint = tmp_path / "weights.npz"
    training = ("--steps", str(steps), "--checkpoint", str(checkpoint), "--pause", str(PAUSE_SECONDS))
    needs = ("-n", str(MEMBERS), "--mem", "1000")
    job = ("--framework", framework.name, *needs, "--maxFailures", "100", "--grace", "3")
    with running(cluster, *job, "--", *framework.words, *training) as program, client(cluster) as daemons:
        gang = Gang(daemons, program)
        wait_for(lambda: gang.runs(1), 60, lambda: program.text)
        for number in range(1, KILLS + 1):
            if number % 2:
                wait_for(lambda: saved(checkpoint) > last, 120, lambda: program.text)  # noqa: B023
            pause(chance.uniform(*(AFTER_A_CHECKPOINT if number % 2 else AFTER_THE_START)), program)
            gang.kill(chance.randrange(MEMBERS))
            took.append(wait_for(lambda: gang.runs(number + 1), 60, lambda: program.text))  # noqa: B023
            last = saved(checkpoint)
        assert program.wait() == 0, program.text
    print(f"{framework.name}: all {MEMBERS} ran again after {', '.join(f'{each:.1f}' for each in took)} s")
    assert max(took) <= AGAIN_SECONDS
    assert abs(loss(program.text) - wanted) <= EQUAL
    begins = [int(step) for step in re.findall(r"process 0 of \d+ continues after step (\d+)", program.text)]
    assert begins == sorted(begins), "a round began before its checkpoint"
    assert len(set(begins)) >= KILLS // 2, "rounds did not continue"
    print(f"continued after steps {begins} of {steps}")


def saved(checkpoint: Path) -> int:
    """Return the step of the checkpoint, 0 without one."""
    if not checkpoint.exists():
        return 0
    with np.load(checkpoint) as found:
        return int(found["step"])


def client(cluster: Cluster) -> PelotonClient:
    return PelotonClient(
        "test", discovery=LocalDiscovery(cluster.layout.membership), **client_identity(cluster.directory)
    )


def pause(seconds: float, program: Program) -> None:
    """Let time pass, which the point of a kill is drawn from; the program is to go on meanwhile."""
    try:
        program.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError(f"it has ended: {program.text}")


class Gang:
    """The processes of a job."""

    def __init__(self, daemons: PelotonClient, program: Program) -> None:
        self._daemons = daemons
        self._job = program.job

    def runs(self, number: int) -> bool:
        """Return whether all members are RUNNING in their run of a number."""
        request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=self._job))
        tasks = self._daemons.task_svc.List(request, timeout=30).result.value
        runs = [parse_mesos_task_id(each.runtime.mesosTaskId.value).run for each in tasks.values()]
        states = {each.runtime.state for each in tasks.values()}
        return runs == [number] * MEMBERS and states == {task_pb2.RUNNING}

    def kill(self, rank: int) -> None:
        """Kill all processes of a member, as a lack of memory does."""
        wanted = {f"PELOTON_JOB_ID={self._job}".encode(), f"PELOTON_RANK={rank}".encode()}
        killed = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted <= set((folder / "environ").read_bytes().split(b"\0")):
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed += 1
            except OSError:
                continue  # it has ended, or is not ours to see
        assert killed, f"member {rank} has no process"

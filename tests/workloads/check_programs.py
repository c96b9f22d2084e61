"""MPI, PyTorch and Ray on a real cluster, each by what it reads itself to find the other members."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.demo.training import EQUAL, POOL
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import temporary_cluster

from .runs import EXAMPLES, alone, loss, peloton, python_of

SYSTEM = Path("/usr/bin/python3")
"""Debian's Python, for which its packages of mpi4py and PyTorch are."""
STEPS = ("--steps", "120")
GPUS = "gpus:2;"
POOL_SPEC = """
owningTeam: ml
resources:
  - {kind: cpu, reservation: 16, limit: 16, share: 1}
  - {kind: memory, reservation: 24000, limit: 24000, share: 1}
  - {kind: disk, reservation: 80000, limit: 80000, share: 1}
  - {kind: gpu, reservation: 4, limit: 4, share: 1}
"""
TORCHRUN = ("/usr/bin/torchrun", "--redirects", "1:0", "--tee", "1:0")
"""Both options name no process that there is: PyTorch 1.13 does not get on with Python 3.11 without them."""
MPI = (str(SYSTEM), str(EXAMPLES / "mpi_member.py"))
TRAIN_MPI, TRAIN_TORCH = EXAMPLES / "train_mpi.py", EXAMPLES / "train_torch.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Agents with room for nodes of Ray, which take several hundred MB each, and two with GPUs.

    Their ports are those that no minicluster, and no outgoing connection, has on this machine.
    """
    agents = tuple(
        Agent(hostname=f"agent{number}", resources=f"cpus:4;mem:6000;disk:20000;{gpus}ports:[{ports}]")
        for number, (gpus, ports) in enumerate(
            (("", "26000-26999"), ("", "27000-27999"), (GPUS, "28000-28999"), (GPUS, "29000-29999"))
        )
    )
    with temporary_cluster(ClusterSettings(ports="free", agents=agents)) as found:
        spec = tmp_path_factory.mktemp("pool") / "pool.yaml"
        spec.write_text(POOL_SPEC)
        assert peloton(found, "respool", "create", POOL, str(spec)).returncode == 0
        yield found


def run(cluster: Cluster, framework: str, processes: int, *words: str, code: int = 0) -> str:
    """Return what a program writes to standard output."""
    done = peloton(cluster, "run", "--framework", framework, "-n", str(processes), *words)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("processes", [2, 4])
def test_mpirun_starts_a_process_in_each_task(cluster: Cluster, processes: int) -> None:
    assert shutil.which("mpirun"), "tools/frameworks installs Debian's Open MPI"
    text = run(cluster, "mpi", processes, "--", *MPI, str(SYSTEM), str(TRAIN_MPI), *STEPS)
    assert abs(loss(text) - loss(alone(SYSTEM, TRAIN_MPI, *STEPS))) <= EQUAL
    begun = sorted(re.findall(rf"process (\d+) of {processes} in task (\d+)", text))
    assert begun == [(str(rank), str(rank)) for rank in range(processes)]


def test_a_program_of_mpi_that_fails_ends_the_gang(cluster: Cluster) -> None:
    failing = "import sys; from mpi4py import MPI; sys.exit(3 if MPI.COMM_WORLD.Get_rank() == 1 else 0)"
    run(cluster, "mpi", 2, "--", *MPI, str(SYSTEM), "-c", failing, code=3)


@pytest.mark.parametrize("launcher", [(str(SYSTEM),), TORCHRUN], ids=["python", "torchrun"])
def test_torch_finds_the_members(cluster: Cluster, launcher: tuple[str, ...]) -> None:
    text = run(cluster, "torch", 3, "--", *launcher, str(TRAIN_TORCH), *STEPS)
    assert abs(loss(text) - loss(alone(SYSTEM, TRAIN_TORCH, *STEPS))) <= EQUAL
    assert sorted(re.findall(r"process (\d+) of 3", text)) == ["0", "1", "2"]


def test_a_node_of_ray_in_each_member(cluster: Cluster) -> None:
    python = str(python_of("ray"))
    program = (str(EXAMPLES / "ray_member.py"), python, str(EXAMPLES / "ray_pi.py"))
    text = run(cluster, "ray", 2, "--mem", "1500", "--", python, *program)
    assert "2 nodes of 2 have counted" in text
    pi = re.search(r"pi is about [0-9.]+", text)
    assert pi is not None and pi[0] in alone(python_of("ray"), EXAMPLES / "ray_pi.py")


def test_members_with_gpus_have_devices_of_their_own(cluster: Cluster) -> None:
    command = "echo $PELOTON_RANK $CUDA_VISIBLE_DEVICES $(wc -l <$PELOTON_MEMBERS_FILE)"
    text = run(cluster, "torch", 4, "--gpus", "1", "--cpus", "0.1", "--", "sh", "-c", command)
    found = re.findall(r"\| (\d) (\d) 4", text)
    assert sorted(rank for rank, _ in found) == list("0123")
    assert sorted(device for _, device in found) == list("0011"), "two agents have devices 0 and 1"

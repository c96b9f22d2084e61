"""Elastic gangs of real programs: they shrink when a host is drained, and grow when it is back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from minicluster.demo.training import EQUAL
from minicluster.settings import Agent
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.workload import workload_pb2
from peloton.model.ids import parse_mesos_task_id
from tests.cluster.conftest import Harness, harness_of, wait_for
from tests.cluster.test_maintenance import DOWN, await_all_up, await_state, complete

from .check_programs import SYSTEM, TORCHRUN
from .runs import EXAMPLES, ROOT, alone, loss, python_of

SECONDS = 180.0
NEEDED, MEMBERS = 2, 3
STEPS = 1000
"""They end soon once the pauses of the script are over."""
PAUSE = "0.3"
GROWTH_SECONDS = 3
PROGRAMS = ROOT / "tests" / "workloads" / "programs"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Three agents, each with room for one member."""
    agents = tuple(
        Agent(
            hostname=f"agent{number}", resources=f"cpus:4;mem:4000;disk:20000;ports:[{first}-{first + 999}]"
        )
        for number, first in enumerate((23000, 24000, 25000))
    )
    with harness_of(tmp_path_factory, agents=agents) as held:
        yield held


@dataclass
class Gang:
    """A job of an elastic gang, whose members write into files of a folder."""

    harness: Harness
    folder: Path
    id: str

    @property
    def text(self) -> str:
        """What all runs of all members have written."""
        return "\n".join(file.read_text() for file in sorted(self.folder.glob("*.log")))

    def await_text(self, pattern: str, after: int = 0) -> int:
        """Wait until a pattern was written more than `after` times; return how often."""

        def found() -> int:
            return len(re.findall(pattern, self.text))

        wait_for(lambda: found() > after, SECONDS, lambda: f"{pattern}: {self.story()}")
        return found()

    def count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.text))

    def story(self) -> str:
        tasks = self.harness.tasks(self.id)
        told = {number: (task.runtime.state, task.runtime.reason) for number, task in tasks.items()}
        return f"{told}\n{self.text[-6000:]}"

    def runs(self) -> list[int]:
        """Return the number of the run of each member."""
        tasks = self.harness.tasks(self.id)
        return [parse_mesos_task_id(tasks[i].runtime.mesosTaskId.value).run for i in range(MEMBERS)]

    def drained(self) -> str:
        """Begin to drain the host of the last member; return its name."""
        host: str = self.harness.tasks(self.id)[MEMBERS - 1].runtime.host
        request = host_svc_pb2.StartMaintenanceRequest(hostnames=[host])
        self.harness.client.host_svc.StartMaintenance(request, timeout=30)
        return host

    def bring_back(self, host: str) -> None:
        await_state(self.harness, host, DOWN)
        complete(self.harness, host)

    def end(self) -> None:
        (self.folder / "done").touch()
        try:
            assert self.harness.ended(self.id, SECONDS).state == job_pb2.SUCCEEDED, self.story()
        except AssertionError as error:
            raise AssertionError(self.story()) from error


def begin(harness: Harness, folder: Path, framework: int, in_place: bool, command: str) -> Gang:
    """Create the job of a gang whose last member is an extra."""
    await_all_up(harness)
    output = f'exec >> "{folder}/$PELOTON_INSTANCE_ID.log" 2>&1; '
    config = harness.config(output + command, MEMBERS)
    config.sla.minimumRunningInstances = NEEDED
    config.workload.framework = framework  # type: ignore[assignment]
    config.workload.elastic.SetInParent()
    if in_place:
        config.workload.gang_policy = workload_pb2.GANG_POLICY_RESTART_MEMBER
    else:
        config.workload.elastic.growth_interval_seconds = GROWTH_SECONDS
    config.defaultConfig.workload.grace_seconds = 5
    config.defaultConfig.resource.cpuLimit = 3
    config.defaultConfig.resource.memLimitMb = 1500
    config.defaultConfig.ports.add(name="meet", envName="MEET")
    return Gang(harness, folder, harness.create(config))


def paced(folder: Path, script: Path) -> str:
    """Return the words of a script that saves its work, and pauses until the file `done` is there."""
    own = ("--steps", str(STEPS), "--pause", PAUSE, "--checkpoint", str(folder / "weights"))
    return shlex.join([str(PROGRAMS / "paced.py"), str(folder / "done"), str(script), *own])


def of(processes: int) -> str:
    return rf"process \d of {processes} continues after step \d+"


def shrinks_and_grows(gang: Gang, saved: Path) -> None:
    """A host is drained once the work was saved, and comes back; then the gang is let end."""
    gang.await_text(rf"process \d of {MEMBERS}", MEMBERS - 1)
    wait_for(saved.exists, SECONDS, gang.story)
    before = gang.count(of(MEMBERS))
    host = gang.drained()
    gang.await_text(of(NEEDED), NEEDED - 1)
    gang.bring_back(host)
    gang.await_text(of(MEMBERS), before + MEMBERS - 1)
    gang.end()


def test_jax_goes_on_with_those_that_fit(harness: Harness, tmp_path: Path) -> None:
    """Each change of the size is another round, which continues from the checkpoint."""
    python, script = python_of("workloads"), EXAMPLES / "train_jax.py"
    gang = begin(
        harness, tmp_path, workload_pb2.FRAMEWORK_JAX, False, f"exec {python} {paced(tmp_path, script)}"
    )
    shrinks_and_grows(gang, tmp_path / "weights")
    assert abs(loss(gang.text) - loss(alone(python, script, "--steps", str(STEPS)))) <= EQUAL


def test_torchrun_has_members_join_and_leave(harness: Harness, tmp_path: Path) -> None:
    """No task runs again but that of the drained host: torchrun has the others meet anew."""
    script = EXAMPLES / "train_torch.py"
    meet = 'export PET_RDZV_CONF="$PET_RDZV_CONF,last_call_timeout=3"; '
    run = f"exec {shlex.join(TORCHRUN)} --max_restarts 100 {paced(tmp_path, script)}"
    gang = begin(harness, tmp_path, workload_pb2.FRAMEWORK_TORCH, True, meet + run)
    shrinks_and_grows(gang, tmp_path / "weights")
    assert abs(loss(gang.text) - loss(alone(SYSTEM, script, "--steps", str(STEPS)))) <= EQUAL
    assert gang.runs() == [1, 1, 2]


def test_nodes_of_ray_join_and_leave(harness: Harness, tmp_path: Path) -> None:
    python, member = python_of("ray"), EXAMPLES / "ray_member.py"
    words = [str(each) for each in (python, member, python, PROGRAMS / "ray_nodes.py", tmp_path / "done")]
    gang = begin(harness, tmp_path, workload_pb2.FRAMEWORK_RAY, True, f"exec {shlex.join(words)}")
    full, fewer = rf"{MEMBERS} nodes after", rf"{NEEDED} nodes after"
    gang.await_text(full)
    before = gang.count(fewer)
    host = gang.drained()
    gang.await_text(fewer, before)
    gang.bring_back(host)
    gang.await_text(full, 1)
    gang.end()
    assert "the sum is right" in gang.text
    assert gang.runs() == [1, 1, 2]

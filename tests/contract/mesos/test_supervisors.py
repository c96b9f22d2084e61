"""The fork server and the agent may die at any time: each task runs exactly once, to its end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from minicluster.mesos.agent import supervisor
from minicluster.mesos.common.process_identity import start_of
from tests.contract.mesos.framework import eventually
from tests.contract.mesos.test_agent import ENDS, Cluster, with_agent

TASKS = 50


class Crowd:
    """Many tasks that leave a line when they begin, wait, and exit each with a code of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.processes.root / "crowd"
        self.folder.mkdir()
        self.gate = (self.folder / "gate").open("w")
        fcntl.flock(self.gate, fcntl.LOCK_EX)

    async def launch(self) -> None:
        """All in one call."""
        framework = self.cluster.framework
        offer = (await framework.event("OFFER"))["offer"]
        tasks = [
            {
                "name": f"task{number}",
                "task_id": {"value": f"task{number}"},
                "agent_id": offer["agent_id"],
                "resources": [{"name": "cpus", "type": "SCALAR", "scalar": {"value": 0.01}}],
                "command": {"value": self.command(number)},
            }
            for number in range(TASKS)
        ]
        operation = {"type": "LAUNCH", "launch": {"task_infos": tasks}}
        body = {"offer_ids": [offer["id"]], "operations": [operation], "filters": {"refuse_seconds": 0}}
        assert (await framework.call("ACCEPT", accept=body)).status == 202

    def command(self, number: int) -> str:
        begun = self.folder / f"begun{number}"
        return f"echo x >> {begun}; exec flock -s {self.gate.name} sh -c 'exit {number}'"

    def open_gate(self) -> None:
        self.gate.close()

    def begun(self) -> int:
        return len(list(self.folder.glob("begun*")))

    async def ended(self) -> None:
        """Let them end; each must have run once, and its exit code been reported."""
        self.open_gate()
        said: dict[str, str] = {}
        while len(said) < TASKS:
            status = await self.cluster.framework.until(*ENDS)
            said[status["task_id"]["value"]] = status["message"]
        assert said == {f"task{n}": f"Command exited with status {n}" for n in range(TASKS)}
        assert {path.name: path.read_text() for path in self.folder.glob("begun*")} == {
            f"begun{n}": "x\n" for n in range(TASKS)
        }


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with with_agent(tmp_path) as made:
        yield made


def children(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children()]


def fork_servers(cluster: Cluster) -> list[int]:
    """Children of the agent; supervisors are children of these."""
    found = psutil.Process(cluster.processes.members["agent"].process.pid).children()
    lines = {child.pid: child.as_dict(["cmdline"])["cmdline"] or () for child in found}
    return [pid for pid, line in lines.items() if supervisor.__file__ in line]


async def kill_fork_server(cluster: Cluster) -> int:
    [pid] = await eventually(lambda: fork_servers(cluster))
    os.kill(pid, signal.SIGKILL)
    return pid


async def test_the_fork_server_dies_while_tasks_start_and_while_they_run(cluster: Cluster) -> None:
    crowd = Crowd(cluster)
    await crowd.launch()
    await kill_fork_server(cluster)
    for share in (1, TASKS // 3, 2 * TASKS // 3, TASKS):
        await eventually(lambda: crowd.begun() >= share)  # noqa: B023 - asked at once
        for pid in fork_servers(cluster):  # none where all supervisors that are needed are there
            os.kill(pid, signal.SIGKILL)
    await crowd.ended()
    await cluster.framework.launch("next", "exit 3")  # by an idle supervisor, or a new fork server's
    assert (await cluster.framework.until(*ENDS))["message"] == "Command exited with status 3"


async def test_the_agent_dies_while_tasks_start_and_while_they_run(cluster: Cluster) -> None:
    crowd = Crowd(cluster)
    await crowd.launch()
    await eventually(lambda: len(list(cluster.work_dir.glob("meta/runs/*.log"))) == TASKS)
    for share in (1, TASKS // 2, TASKS):
        await eventually(lambda: crowd.begun() >= share)  # noqa: B023 - asked at once
        await cluster.kill_agent()
        await cluster.start_agent()
    await crowd.ended()


async def test_the_fork_server_and_then_the_agent_die_and_exit_codes_are_kept(cluster: Cluster) -> None:
    crowd = Crowd(cluster)
    await crowd.launch()
    await eventually(lambda: len(list(cluster.work_dir.glob("meta/runs/*.log"))) == TASKS)
    await kill_fork_server(cluster)
    await cluster.kill_agent()
    await cluster.start_agent()
    await eventually(lambda: crowd.begun() == TASKS)
    await cluster.kill_agent()
    crowd.open_gate()
    await eventually(lambda: not list(cluster.work_dir.glob("meta/pids/*.json")))
    await cluster.start_agent()
    await crowd.ended()


async def test_a_task_whose_supervisor_is_killed_ends_with_it(cluster: Cluster) -> None:
    await cluster.framework.launch("one", "sleep 600")
    await cluster.framework.until("TASK_RUNNING")
    record = json.loads(next(cluster.work_dir.glob("meta/pids/*.json")).read_text())
    os.kill(record["supervisor"]["pid"], signal.SIGKILL)
    status = await cluster.framework.until(*ENDS)
    assert (status["state"], status["reason"]) == ("TASK_FAILED", "REASON_EXECUTOR_TERMINATED")
    await eventually(lambda: start_of(record["task"]["pid"]) is None)


async def test_a_task_inherits_nothing_from_the_fork_server(cluster: Cluster) -> None:
    # The shell reads its own masks: while it starts another program it may block all signals.
    masks = (
        "while read -r line; do case $line in SigBlk*|SigIgn*) echo $line;; esac; done < /proc/self/status"
    )
    command = f"ls /proc/self/fd; {masks}; cut -d' ' -f5,6 /proc/$$/stat; echo $$"
    await cluster.framework.launch("one", command)
    await cluster.framework.until(*ENDS)
    lines = (cluster.sandbox("one") / "stdout").read_text().split("\n")
    assert lines[:4] == ["0", "1", "2", "3"]  # the last is the folder that ls looks at
    blocked, ignored = (int(line.partition(" ")[2], 16) for line in lines[4:6])
    ours = {*supervisor.HANDLED, signal.SIGCHLD}
    assert not [number for number in ours if ignored >> number - 1 & 1]
    assert blocked == 0
    shell = lines[7]
    assert lines[6] == f"{shell} {shell}"  # it leads its process group and its session


async def test_a_supervisor_serves_one_run_after_the_other_and_leaves_no_zombies(cluster: Cluster) -> None:
    pids = []
    for number in range(3):
        await cluster.framework.launch(f"task{number}", "true")
        status = await cluster.framework.until(*ENDS)
        pids.append(status["container_status"]["executor_pid"])
    assert len(set(pids)) == 1
    [server] = fork_servers(cluster)
    assert children(server) == [pids[0]]
    assert children(pids[0]) == []


async def test_the_fork_server_ends_with_its_agent(cluster: Cluster) -> None:
    await cluster.framework.launch("one", "true")
    status = await cluster.framework.until(*ENDS)
    ours = [*fork_servers(cluster), status["container_status"]["executor_pid"]]
    await cluster.kill_agent()
    await eventually(lambda: all(start_of(pid) is None for pid in ours))

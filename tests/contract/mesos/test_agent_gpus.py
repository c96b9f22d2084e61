"""GPUs of agents as processes: each device belongs to one task at a time, whatever happens to the agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.mesos.framework import CAPABILITIES, Framework, eventually
from tests.contract.mesos.test_agent import ENDS, Cluster, with_agent

CAPABLE = [{"type": name} for name in (*CAPABILITIES, "GPU_RESOURCES")]
RESOURCES = "cpus:4;mem:2048;disk:20000;gpus:3;ports:[31000-32000]"
UNFIT = ("TASK_DROPPED", "TASK_ERROR")
"""The offer was rescinded with its agent, or has not the GPUs that another task has just given back."""
SHOW = 'echo "${CUDA_VISIBLE_DEVICES-unset}"; exec sleep 600'


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with with_agent(tmp_path, "--resources", RESOURCES, "--nvidia-gpu-devices", "4,5,7") as made:
        made.framework.close()
        made.framework = await Framework.subscribe(made.master_port, capabilities=CAPABLE)
        yield made


def gpus(count: float) -> dict[str, Any]:
    """What a launch asks for besides CPUs and memory."""
    if not count:
        return {}
    return {"more_resources": [{"name": "gpus", "type": "SCALAR", "scalar": {"value": count}}]}


async def outcome(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return how the launch of a task ends; statuses of others may come again after the agent was killed."""
    while True:
        status = await cluster.framework.until("TASK_RUNNING", *UNFIT, *ENDS)
        if status["task_id"]["value"] == name:
            return status


async def launched(cluster: Cluster, name: str, count: float, shell: str = SHOW, **more: Any) -> str:
    """Launch a task, and return the devices that it sees."""
    state = ""
    while state in ("", *UNFIT):
        await cluster.framework.launch(name, shell, **gpus(count), **more)
        status = await outcome(cluster, name)
        state = status["state"]
    assert state == "TASK_RUNNING", status
    return await eventually(lambda: (cluster.sandbox(name) / "stdout").read_text()[:-1] or None) or ""


async def ended(cluster: Cluster, name: str) -> None:
    await cluster.framework.call("KILL", kill={"task_id": {"value": name}})
    assert (await cluster.framework.until(*ENDS))["task_id"]["value"] == name


async def test_tasks_see_their_own_devices_and_recovered_ones_keep_theirs(cluster: Cluster) -> None:
    assert await launched(cluster, "one", 1) == "4"
    assert await launched(cluster, "two", 1, command={"environment": {"variables": [_ALL]}}) == "5"
    await cluster.framework.launch("none", 'echo "<$CUDA_VISIBLE_DEVICES>"')
    assert (await cluster.framework.until(*ENDS))["state"] == "TASK_FINISHED"
    assert (cluster.sandbox("none") / "stdout").read_text() == "<>\n"
    await ended(cluster, "one")
    await cluster.kill_agent()
    await cluster.start_agent("--resources", RESOURCES, "--nvidia-gpu-devices", "4,5,7")
    assert await launched(cluster, "three", 2) == "4,7", "two keeps 5 over the agent's restart"
    await ended(cluster, "two")
    assert await launched(cluster, "four", 1) == "5"


_ALL = {"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2,3,4,5,6,7"}


async def test_a_task_waits_for_devices_of_one_that_ends_after_its_framework(cluster: Cluster) -> None:
    root = cluster.processes.root
    begun, go, over = root / "begun", root / "go", root / "over"
    stubborn = f"trap '' TERM; touch {begun}; until [ -e {go} ]; do sleep 0.02; done; touch {over}"
    grace: dict[str, Any] = {"kill_policy": {"grace_period": {"nanoseconds": 60_000_000_000}}}
    await cluster.framework.launch("stubborn", stubborn, **gpus(3), **grace)
    await eventually(begun.exists)
    await cluster.framework.call("TEARDOWN")
    cluster.framework.close()
    cluster.framework = await Framework.subscribe(cluster.master_port, capabilities=CAPABLE)
    await cluster.framework.launch("next", f"ls {over}", **gpus(2))
    await cluster.framework.launch("killed", "true", **gpus(1))
    await ended(cluster, "killed")
    assert not over.exists() and not (cluster.sandbox("next") / "stdout").read_text()
    go.touch()
    status = await cluster.framework.until(*ENDS)
    assert (status["task_id"]["value"], status["state"]) == ("next", "TASK_FINISHED")


async def test_a_part_of_a_device_is_refused(cluster: Cluster) -> None:
    await cluster.framework.launch("half", "true", **gpus(0.5))
    status = await cluster.framework.until(*ENDS)
    assert status["reason"] == "REASON_CONTAINER_LAUNCH_FAILED"
    assert "0.5 is not a whole number of GPUs: a device has one owner" in status["message"]


async def test_devices_are_as_many_as_the_resources_have(cluster: Cluster) -> None:
    at = ("--master", f"127.0.0.1:{cluster.master_port}", "--work-dir", str(cluster.processes.root / "other"))
    wrong = await cluster.refused(
        "agent", *at, "--port", "0", "--resources", RESOURCES, "--nvidia-gpu-devices", "0,1"
    )
    assert "'0,1' has 2 devices, the resources have gpus:3" in wrong


async def test_a_command_beside_a_task_sees_its_devices(cluster: Cluster) -> None:
    check = {"type": "COMMAND", "command": {"value": "echo $CUDA_VISIBLE_DEVICES >>checked"}}
    await launched(cluster, "checked", 2, health_check={**check, "interval_seconds": 0.1, "delay_seconds": 0})
    checked = cluster.sandbox("checked") / "checked"
    assert (await eventually(lambda: checked.exists() and checked.read_text())).split()[0] == "4,5"  # type: ignore[union-attr]

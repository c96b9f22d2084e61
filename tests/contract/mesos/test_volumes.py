"""Persistent volumes on our own agents: what outlives a task, an agent, its id and a master."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.contract.mesos.cluster import Processes
from tests.contract.mesos.framework import Framework, eventually
from tests.contract.mesos.test_agent import Cluster

DATABASE: dict[str, Any] = {"roles": ["db"], "principal": "db"}
END = ("TASK_FINISHED", "TASK_FAILED", "TASK_ERROR")
DISK = {
    "name": "disk",
    "type": "SCALAR",
    "scalar": {"value": 64},
    "role": "db",
    "reservation": {"principal": "db", "labels": {"labels": [{"key": "volume", "value": "v"}]}},
}
Operation = dict[str, Any]


def volume(path: str = "data", persistence_id: str = "v") -> dict[str, Any]:
    mounted = {"container_path": path, "mode": "RW"}
    return {**DISK, "disk": {"persistence": {"id": persistence_id, "principal": "db"}, "volume": mounted}}


RESERVE = {"type": "RESERVE", "reserve": {"resources": [DISK]}}
CREATE = {"type": "CREATE", "create": {"volumes": [volume()]}}
DESTROY = {"type": "DESTROY", "destroy": {"volumes": [volume()]}}
UNRESERVE = {"type": "UNRESERVE", "unreserve": {"resources": [DISK]}}


def with_id(operation: Operation, name: str) -> Operation:
    return {**operation, "id": {"value": name}}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    processes = Processes(tmp_path)
    made = Cluster(processes)
    try:
        await made.start_master()
        await made.start_agent()
        made.framework = await Framework.subscribe(made.master_port, **DATABASE)
        yield made
    finally:
        if hasattr(made, "framework"):
            made.framework.close()
        await processes.stop()


def launch(task_id: str, shell: str, path: str = "data") -> Operation:
    """A task with the volume, whose agent is that of the offer."""
    scalars = (("cpus", 0.1), ("mem", 32))
    resources = [{"name": name, "type": "SCALAR", "scalar": {"value": value}} for name, value in scalars]
    task = {
        "name": task_id,
        "task_id": {"value": task_id},
        "resources": [*resources, volume(path)],
        "command": {"value": shell},
    }
    return {"type": "LAUNCH", "launch": {"task_infos": [task]}}


async def accept(framework: Framework, *operations: Operation, holding: bool | None = None) -> None:
    """Accept the next offer; with `holding`, the next one that has the volume, or has it not."""
    while True:
        offer = (await framework.event("OFFER"))["offer"]
        if holding is None or holds(offer) is holding:
            break
        await framework.call(
            "DECLINE", decline={"offer_ids": [offer["id"]], "filters": {"refuse_seconds": 0}}
        )
    for operation in operations:
        for task in operation.get("launch", {}).get("task_infos", ()):
            task["agent_id"] = offer["agent_id"]
    body = {"offer_ids": [offer["id"]], "operations": list(operations), "filters": {"refuse_seconds": 0}}
    assert (await framework.call("ACCEPT", accept=body)).status == 202


def holds(offer: dict[str, Any]) -> bool:
    """Whether a volume is offered."""
    return any("persistence" in item.get("disk", {}) for item in offer["resources"])


async def result(framework: Framework) -> tuple[str, str]:
    """The state of the next operation, and its message."""
    event = await framework.event("UPDATE_OPERATION_STATUS")
    status = event["update_operation_status"]["status"]
    return status["state"], status.get("message", "")


async def written(cluster: Cluster) -> None:
    """A volume with a file."""
    await accept(cluster.framework, RESERVE, CREATE, launch("writer", "echo kept > data/file"))
    assert (await cluster.framework.until(*END))["state"] == "TASK_FINISHED"


async def found(cluster: Cluster, task_id: str = "reader") -> None:
    """The file is there for another task, wherever it wants the volume."""
    for attempt in count():
        reader = launch(f"{task_id} {attempt}", "grep -q kept elsewhere/file", "elsewhere")
        await accept(cluster.framework, reader, holding=True)
        status = await cluster.framework.until(*END, "TASK_LOST", "TASK_DROPPED")
        if status["state"] in END:  # else it was an offer of before the agent, or the master, was restarted
            break
    assert status["state"] == "TASK_FINISHED", status


async def test_another_task_finds_the_data(cluster: Cluster) -> None:
    await written(cluster)
    await found(cluster)


async def test_volumes_survive_the_agent_its_id_and_the_master(cluster: Cluster) -> None:
    await written(cluster)
    await cluster.kill_agent()
    await cluster.start_agent()
    await found(cluster, "after the agent")
    cluster.framework.close()
    await cluster.processes.signal("master", signal.SIGKILL)
    await cluster.start_master()
    cluster.framework = await Framework.subscribe(cluster.master_port, cluster.framework.id, **DATABASE)
    await found(cluster, "after the master")
    before = cluster.agent_id
    assert await cluster.stop_agent() == 0
    await cluster.start_agent()
    assert cluster.agent_id != before
    await found(cluster, "after the id")


async def test_a_volume_in_use_is_not_destroyed(cluster: Cluster) -> None:
    framework = cluster.framework
    await accept(framework, RESERVE, CREATE, launch("user", "sleep 600"))
    await framework.until("TASK_RUNNING")
    await accept(framework, with_id(DESTROY, "d"), holding=False)
    state, message = await result(framework)
    assert (state, message.partition(";")[0]) == ("OPERATION_ERROR", "Persistent volumes in use")
    await accept(framework, launch("second", "true"))
    status = await framework.until(*END)
    assert (status["task_id"]["value"], status["state"]) == ("second", "TASK_ERROR")
    assert "is more than available" in status["message"]


async def test_destroyed_volumes_lose_their_data_and_free_the_disk(cluster: Cluster) -> None:
    framework, root = cluster.framework, cluster.work_dir / "volumes"
    await written(cluster)
    assert (root / "roles" / "db" / "v" / "file").is_file()
    await accept(framework, with_id(UNRESERVE, "u"), holding=True)
    assert "does not contain disk" in (await result(framework))[1]
    await accept(framework, DESTROY, with_id(UNRESERVE, "u"), holding=True)
    assert (await result(framework))[0] == "OPERATION_FINISHED"
    await eventually(lambda: not list(root.glob("roles/*/*")))
    offer = (await framework.event("OFFER"))["offer"]
    while not any(item["name"] == "disk" for item in offer["resources"]):
        offer = (await framework.event("OFFER"))["offer"]
    assert [item["role"] for item in offer["resources"] if item["name"] == "disk"] == ["*"]


@pytest.mark.parametrize("path", ["/data", "../data", ""])
async def test_a_plain_process_sees_volumes_inside_its_sandbox_only(cluster: Cluster, path: str) -> None:
    await accept(cluster.framework, RESERVE, CREATE, launch("t", "true", path))
    status = await cluster.framework.until(*END)
    assert status["state"] == "TASK_FAILED"
    assert f"its container path '{path}' is not a relative path inside the sandbox" in status["message"]


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"type": "CREATE", "create": {"volumes": [{**volume(), "role": "*"}]}}, "unreserved"),
        ({"type": "CREATE", "create": {"volumes": [volume(persistence_id="a/b")]}}, "invalid characters"),
        ({"type": "CREATE", "create": {"volumes": [DISK]}}, "is not a persistent volume"),
        ({"type": "RESERVE", "reserve": {"resources": [volume()]}}, "must already be reserved"),
        ({"type": "RESERVE", "reserve": {"resources": []}}, "No resources specified"),
        (
            {"type": "UNRESERVE", "unreserve": {"resources": [volume()]}},
            "destroy the persistent volume first",
        ),
        ({"type": "DESTROY", "destroy": {"volumes": [DISK]}}, "other than persistent volumes"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
async def test_wrong_operations_are_refused(cluster: Cluster, operation: Operation, message: str) -> None:
    await accept(cluster.framework, with_id(operation, "o"))
    state, told = await result(cluster.framework)
    assert state == "OPERATION_ERROR"
    assert message in told

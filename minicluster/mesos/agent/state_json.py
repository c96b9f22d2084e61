"""``/state`` of an agent: what of it readers of sandboxes need (recording ``13-agent-sandbox``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.run import Run
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.resource_json import attributes, flat


def state(
    info: mesos.AgentInfo,
    ip: str,
    started: float,
    version: str,
    live: Iterable[Run],
    completed: Iterable[Run],
) -> dict[str, Any]:
    """Return the agent's state: who it is, and its frameworks' executors with their directories."""
    running, over = list(live), list(completed)
    frameworks: dict[str, list[Run]] = {}
    for run in (*running, *over):
        frameworks.setdefault(run.place.framework_id, []).append(run)
    shown = [_framework(runs, {id(run) for run in over}) for runs in frameworks.values()]
    return {
        "version": version,
        "start_time": started,
        "id": info.id.value,
        "pid": f"slave(1)@{ip}:{info.port}",
        "hostname": info.hostname,
        "resources": flat(res.from_messages(info.resources)),
        "attributes": attributes(info.attributes),
        "frameworks": [item for item in shown if item["executors"]],
        "completed_frameworks": [item for item in shown if not item["executors"]],
    }


def _framework(runs: list[Run], over: set[int]) -> dict[str, Any]:
    info = runs[0].framework
    return {
        "id": info.id.value,
        "name": info.name,
        "user": info.user,
        "failover_timeout": info.failover_timeout,
        "checkpoint": info.checkpoint,
        "roles": list(info.roles),
        "executors": [_executor(run) for run in runs if id(run) not in over],
        "completed_executors": [_executor(run) for run in runs if id(run) in over],
    }


def _executor(run: Run) -> dict[str, Any]:
    task = _task(run)
    return {
        "id": run.task.task_id.value,
        "name": f"Command Executor (Task: {run.task.task_id.value})",
        "source": run.task.task_id.value,
        "container": run.place.container_id,
        "directory": str(run.place.sandbox),
        "resources": task["resources"],
        "tasks": [] if run.ended else [task],
        "queued_tasks": [],
        "completed_tasks": [task] if run.ended else [],
    }


def _task(run: Run) -> dict[str, Any]:
    return {
        "id": run.task.task_id.value,
        "name": run.task.name,
        "framework_id": run.place.framework_id,
        "executor_id": "",
        "slave_id": run.place.agent_id,
        "state": mesos.TaskState.Name(run.latest.state) if run.latest is not None else "TASK_STAGING",
        "resources": flat(res.from_messages(run.task.resources)),
    }

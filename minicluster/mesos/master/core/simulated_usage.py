"""What simulated agents tell of their tasks: a share of what each has, the same share every time."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.state import Agent, Task

LEAST, MOST = 0.1, 0.9
"""Bounds of the share of what a task has that it uses."""
_BYTES_PER_MB = 1024 * 1024
_MILLI = 1000


def containers(agent: Agent, now: float) -> list[dict[str, Any]]:
    """Return what ``/containers`` of an agent answers: the tasks that run."""
    begun = ((task, _running_since(task)) for task in agent.tasks.values())
    return [_container(task, since, now) for task, since in begun if since is not None]


def _running_since(task: Task) -> float | None:
    """Return when a task began to run; None where it does not."""
    statuses = task.statuses
    if not statuses or statuses.last.state != mesos.TASK_RUNNING:
        return None
    return next(each.timestamp for each in statuses if each.state == mesos.TASK_RUNNING)


def _container(task: Task, since: float, now: float) -> dict[str, Any]:
    share = LEAST + (MOST - LEAST) * crc32(task.id.encode()) / 2**32
    amounts = res.scalars(task.resources)
    cores = amounts.get("cpus", 0) / _MILLI
    limit = amounts.get("mem", 0) * _BYTES_PER_MB // _MILLI
    memory = int(share * limit)
    return {
        "container_id": task.id,
        "executor_id": task.executor_id,
        "executor_name": f"Command Executor (Task: {task.id})",
        "framework_id": task.framework_id,
        "source": task.executor_id,
        "statistics": {
            "timestamp": now,
            "cpus_user_time_secs": share * cores * max(now - since, 0.0),
            "cpus_system_time_secs": 0.0,
            "cpus_limit": cores,
            "mem_rss_bytes": memory,
            "mem_peak_bytes": memory,
            "mem_limit_bytes": limit,
            "processes": 1,
        },
    }

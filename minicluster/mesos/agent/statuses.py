"""The statuses that originate in an agent, with Mesos' messages.

Source: recordings ``02-launch``, ``03-kill``, ``10-agent-*``.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cgroups.limits import MIN_MEMORY_BYTES
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.launch_costs import too_late

_STATUS = mesos.TaskStatus
_NEAR_LIMIT = 0.9
_BYTES_PER_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StatusDetails:
    """The content of a status that depends on what happened to the run."""

    state: int
    message: str
    reason: int | None = None
    by_agent: bool = False
    healthy: bool | None = None
    limitation: float | None = None
    used: str = ""
    """What the run has used, as the label of the end's status; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class EndCause:
    """Why a run was being ended, if it was; at most one of these is set."""

    killed: bool = False
    draining: bool = False
    unhealthy: bool = False
    too_long: bool = False


KILLED_DURING_LAUNCH = StatusDetails(
    mesos.TASK_KILLED,
    "Killed before delivery to the executor",
    _STATUS.REASON_TASK_KILLED_DURING_LAUNCH,
    by_agent=True,
)


def executor_terminated(text: str = "Executor terminated") -> StatusDetails:
    """Return the end of a run whose executor is gone, or never was."""
    return StatusDetails(mesos.TASK_FAILED, text, _STATUS.REASON_EXECUTOR_TERMINATED, by_agent=True)


def launch_failed(message: str) -> StatusDetails:
    """Return the end of a container that could not be launched."""
    text = f"Failed to launch container: {message}"
    return StatusDetails(mesos.TASK_FAILED, text, _STATUS.REASON_CONTAINER_LAUNCH_FAILED, by_agent=True)


def registered_too_late(timeout: float) -> StatusDetails:
    """Return the end of a run whose executor did not register within ``timeout`` seconds."""
    state, reason, text = too_late(timeout)
    return StatusDetails(state, text, reason, by_agent=True)


def exit_text(status: int) -> str:
    """Describe a raw wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"Command terminated with signal {signal.strsignal(number) or number}"
    return f"Command exited with status {os.WEXITSTATUS(status)}"


def _over_memory(ended: dict[str, Any]) -> bool:
    """Return whether memory was the cause: the kernel killed it, or it reached RLIMIT_DATA and failed."""
    limit = ended["data_limit"]
    if ended.get("oom"):
        return True
    return limit is not None and int(ended.get("max_rss_kb", 0)) * 1024 >= limit * _NEAR_LIMIT


def _peak(ended: dict[str, Any]) -> int:
    """Return the most bytes of memory that a task had; without a cgroup, the largest of its processes."""
    return int(ended.get("peak") or int(ended.get("max_rss_kb", 0)) * 1024)


def _used(ended: dict[str, Any]) -> str:
    """Return the label of what a run has used; empty where an older supervisor, or a container, ran it."""
    cpu = ended.get("cpu")
    return "" if cpu is None else f"{float(cpu):.6f} {_peak(ended)}"


def end_status(ended: dict[str, Any], ending: EndCause, memory_mb: float) -> StatusDetails:
    """Decide a run's last status from what its supervisor wrote and why it was being ended.

    ``memory_mb``: the memory that the task requested.
    """
    return replace(_how_it_ended(ended, ending, memory_mb), used=_used(ended))


def _how_it_ended(ended: dict[str, Any], ending: EndCause, memory_mb: float) -> StatusDetails:
    status = int(ended["status"])
    text = exit_text(status)
    if ending.too_long:
        return StatusDetails(mesos.TASK_FAILED, text, _STATUS.REASON_MAX_COMPLETION_TIME_REACHED)
    if ending.killed or ending.draining or ending.unhealthy:
        reason = _STATUS.REASON_AGENT_DRAINING if ending.draining else None
        return StatusDetails(mesos.TASK_KILLED, text, reason, healthy=False if ending.unhealthy else None)
    if status == 0:
        return StatusDetails(mesos.TASK_FINISHED, text)
    if _over_memory(ended):
        limit_mb = max(memory_mb, MIN_MEMORY_BYTES / _BYTES_PER_MB)
        used_mb = _peak(ended) / _BYTES_PER_MB
        over = f"Memory limit exceeded: Requested: {limit_mb:g}MB Maximum Used: {used_mb:.0f}MB ({text})"
        reason = _STATUS.REASON_CONTAINER_LIMITATION_MEMORY
        return StatusDetails(mesos.TASK_FAILED, over, reason, by_agent=True, limitation=limit_mb)
    return StatusDetails(mesos.TASK_FAILED, text)


def memory_mb(task: mesos.TaskInfo) -> float:
    """Return the memory that a task requests, in MB."""
    return res.scalars(res.from_messages(task.resources)).get("mem", 0) / 1000


def status(
    task: mesos.TaskInfo,
    agent_id: str,
    now: float,
    uuid: bytes,
    details: StatusDetails,
    container: mesos.ContainerStatus | None,
) -> mesos.TaskStatus:
    """Build a status update; ``container`` is left out of those that the agent itself makes."""
    out = mesos.TaskStatus(
        state=details.state,  # type: ignore[arg-type]
        source=_STATUS.SOURCE_AGENT if details.by_agent else _STATUS.SOURCE_EXECUTOR,
        timestamp=now,
        uuid=uuid,
    )
    out.task_id.CopyFrom(task.task_id)
    out.executor_id.value = task.task_id.value
    out.agent_id.value = agent_id
    if details.message:
        out.message = details.message
    if details.reason is not None:
        out.reason = details.reason  # type: ignore[assignment]
    if details.healthy is not None:
        out.healthy = details.healthy
    if details.limitation is not None:
        _limit(out, task)
    elif container is not None and not details.by_agent:
        out.container_status.CopyFrom(container)
    return out


def _limit(out: mesos.TaskStatus, task: mesos.TaskInfo) -> None:
    for resource in task.resources:
        if resource.name == "mem":
            out.limitation.resources.append(resource)


def container_status(container_id: str, ip: str, pid: int) -> mesos.ContainerStatus:
    """Return the container status in each update of a running task."""
    out = mesos.ContainerStatus(executor_pid=pid)
    out.container_id.value = container_id
    out.network_infos.add().ip_addresses.add(ip_address=ip)
    return out

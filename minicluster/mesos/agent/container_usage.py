"""What containers use, in Mesos' form: ``/containers``, ``/monitor/statistics``, GET_CONTAINERS.

The kernel's account of a task's cgroups tells; of what it does not tell there, processes do: those in the
cgroups, or in the task's session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.agent import agent_pb2 as agent
from minicluster.mesos.agent.cgroups.groups import Cgroups, usage_beside
from minicluster.mesos.agent.cgroups.usage import Usage
from minicluster.mesos.agent.cleanup import CONTAINER_VARIABLE, SANDBOX_VARIABLE
from minicluster.mesos.agent.docker_run import SANDBOX
from minicluster.mesos.agent.run import Run
from minicluster.mesos.agent.statuses import memory_mb
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.process_identity import environments
from peloton.mesos.json import to_dict

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BYTES_PER_MB = 1024 * 1024
_MILLI = 1000
Container = agent.Response.GetContainers.Container


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """What a process has used, those of its children included that it has waited for, and uses."""

    pid: int
    session: int
    threads: int
    user_seconds: float
    system_seconds: float
    resident_bytes: int


def process_usage(stat: str) -> ProcessUsage:
    """Read a /proc/PID/stat. Raise ValueError, IndexError."""
    pid, _, rest = stat.partition(" ")
    fields = rest.rpartition(")")[2].split()  # from field 3 on
    return ProcessUsage(
        pid=int(pid),
        session=int(fields[3]),
        threads=int(fields[17]),
        user_seconds=(int(fields[11]) + int(fields[13])) / _TICKS,
        system_seconds=(int(fields[12]) + int(fields[14])) / _TICKS,
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def processes() -> dict[int, ProcessUsage]:
    """Return all processes of this machine that can be seen, by pid."""
    found = {}
    for folder in os.listdir("/proc"):  # noqa: PTH208
        if folder.isdigit():
            try:
                one = process_usage(Path(f"/proc/{folder}/stat").read_text())
            except (OSError, ValueError, IndexError):
                continue  # it is gone
            found[one.pid] = one
    return found


def statistics(
    task: mesos.TaskInfo, usage: Usage, members: Sequence[ProcessUsage], now: float
) -> mesos.ResourceStatistics:
    """Return the statistics of a task. ``members``: its processes."""
    out = mesos.ResourceStatistics(timestamp=now, processes=len(members))
    out.threads = sum(each.threads for each in members)
    by_group = usage.user_seconds is not None and usage.system_seconds is not None
    out.cpus_user_time_secs = (usage.user_seconds or 0.0) if by_group else _sum(members, "user_seconds")
    out.cpus_system_time_secs = (usage.system_seconds or 0.0) if by_group else _sum(members, "system_seconds")
    out.cpus_limit = res.scalars(res.from_messages(task.resources)).get("cpus", 0) / _MILLI
    out.mem_limit_bytes = usage.memory_limit or int(memory_mb(task) * _BYTES_PER_MB)
    out.mem_rss_bytes = int(_sum(members, "resident_bytes")) if usage.anonymous is None else usage.anonymous
    known = {
        "mem_total_bytes": usage.memory,
        "mem_anon_bytes": usage.anonymous,
        "mem_file_bytes": usage.cached,
        "mem_cache_bytes": usage.cached,
        "mem_peak_bytes": usage.memory_peak,
        "cpus_nr_periods": usage.periods,
        "cpus_nr_throttled": usage.throttled_periods,
        "cpus_throttled_time_secs": usage.throttled_seconds,
    }
    for name, value in known.items():
        if value is not None:
            setattr(out, name, value)
    return out


def _sum(members: Sequence[ProcessUsage], name: str) -> float:
    return float(sum(getattr(each, name) for each in members))


def containers(
    runs: Iterable[tuple[Run, int]], cgroups: Cgroups, in_docker: Callable[[mesos.TaskInfo], bool], now: float
) -> list[Container]:
    """Return the containers of runs, each given with the pid of its task, and what they use."""
    seen = processes()
    of_docker: dict[str, int] | None = None
    out = []
    for run, pid in runs:
        name = run.place.container_id
        if in_docker(run.task):
            of_docker = _first_in_docker() if of_docker is None else of_docker
            usage, pids = usage_beside(of_docker[name]) if name in of_docker else (Usage(), [])
            members = [seen[each] for each in pids if each in seen]
        else:
            usage, inside = cgroups.usage(name), set(cgroups.processes(name))
            members = [each for each in seen.values() if each.pid in inside or each.session == pid]
        made = Container(executor_name=f"Command Executor (Task: {run.task.task_id.value})")
        made.framework_id.value = run.place.framework_id
        made.executor_id.value = run.task.task_id.value
        made.container_id.value = name
        if run.container is not None:
            made.container_status.CopyFrom(run.container)
        made.resource_statistics.CopyFrom(statistics(run.task, usage, members, now))
        out.append(made)
    return out


def _first_in_docker() -> dict[str, int]:
    """Return, by container, a process in it: it has the variables that containers of docker get."""
    sandbox, container = f"{SANDBOX_VARIABLE}={SANDBOX}".encode(), f"{CONTAINER_VARIABLE}=".encode()
    return {
        variable.removeprefix(container).decode(errors="replace"): identity.pid
        for identity, variables in environments()
        if sandbox in variables
        for variable in variables
        if variable.startswith(container)
    }


def containers_json(found: Iterable[Container]) -> list[dict[str, Any]]:
    """Return what ``/containers`` answers."""
    return [{**row, "status": _json(each.container_status)} for each, row in _rows(found)]


def statistics_json(found: Iterable[Container]) -> list[dict[str, Any]]:
    """Return what ``/monitor/statistics`` answers."""
    return [{name: value for name, value in row.items() if name != "container_id"} for _, row in _rows(found)]


def _rows(found: Iterable[Container]) -> list[tuple[Container, dict[str, Any]]]:
    return [
        (
            each,
            {
                "container_id": each.container_id.value,
                "executor_id": each.executor_id.value,
                "executor_name": each.executor_name,
                "framework_id": each.framework_id.value,
                "source": each.executor_id.value,
                "statistics": _json(each.resource_statistics),
            },
        )
        for each in found
    ]


def _json(message: Message) -> dict[str, Any]:
    return to_dict(message)

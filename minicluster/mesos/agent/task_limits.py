"""Hold tasks to what they ask for: by control groups where they can be made, else memory by RLIMIT_DATA."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cgroups.groups import (
    Cgroups,
    Detected,
    TaskGroups,
    processes_in_kept,
    remove_kept,
)
from minicluster.mesos.agent.cgroups.groups import detect as detect_groups
from minicluster.mesos.agent.cgroups.limits import Limits, held_memory
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.common import resources as res

_MILLI = 1000
_BYTES_PER_MB = 1024 * 1024
_WHAT = {"memory": "memory", "cpu": "CPU", "pids": "processes"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the tasks of an agent are held to besides their memory and their share of the CPUs.

    ``ceiling``: a task gets no more than its CPUs, even where others are idle. ``pids``: processes and
    threads of a task at a time, 0: any number.
    """

    ceiling: bool = False
    pids: int = 0

    @property
    def controllers(self) -> frozenset[str]:
        """The controllers that it takes."""
        return frozenset({"memory", "cpu", *(["pids"] if self.pids else [])})


NO_GROUPS, NOTHING_MORE = Cgroups(), Wanted()


class TaskLimits:
    """Limits the tasks of one agent."""

    def __init__(
        self,
        cgroups: Cgroups | None = None,
        wanted: Wanted | None = None,
        tell: Callable[[str], None] = print,
    ) -> None:
        """``tell`` is called once where groups cannot be made (any more)."""
        self.cgroups = cgroups or Cgroups()
        self.wanted = wanted or Wanted()
        self._tell = tell
        self._told = False

    def apply(self, task: mesos.TaskInfo, container_id: str) -> dict[str, Any]:
        """Prepare a task's limits; return what its supervisor has to know of them."""
        limits = limits_of(task, self.wanted)
        made = TaskGroups()
        try:
            made = self.cgroups.make(container_id, limits)
        except OSError as error:
            self._lack(error)
        by_group = made.oom_events is not None
        return {
            "cgroups": made.groups,
            "oom_events": made.oom_events,
            "peak": made.peak,
            "data_limit": (limits.memory or None) if not by_group else None,
        }

    def _lack(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            self._tell(
                f"no cgroup can be made for a task: {error}: such tasks are held to their memory by "
                "RLIMIT_DATA, each process for itself, and to nothing else"
            )


NO_LIMITS: dict[str, Any] = {"cgroups": (), "oom_events": None, "peak": None, "data_limit": None}
"""What a supervisor is told where it does not limit a task."""


def limits_of(task: mesos.TaskInfo, wanted: Wanted) -> Limits:
    """Return what a task is held to."""
    amounts = res.scalars(res.from_messages(task.resources))
    return Limits(
        memory=held_memory(amounts.get("mem", 0) * _BYTES_PER_MB // _MILLI),
        cpus=amounts.get("cpus", 0),
        ceiling=wanted.ceiling,
        pids=wanted.pids,
    )


def detect(layout: Layout, wanted: Wanted, total: res.Bundle) -> Detected:
    """Find out what can be limited by cgroups; those that are made are noted in ``meta/cgroup``.

    ``total``: the agent's resources.
    """
    name = hashlib.sha256(str(layout.work_dir).encode()).hexdigest()[:16]
    return detect_groups(name, wanted.controllers, res.scalars(total).get("cpus", 0), layout.cgroup_file)


def remove_cgroups(layout: Layout) -> None:
    """Remove the agent's cgroups with all in them that hold no process any more."""
    remove_kept(layout.cgroup_file)


def processes_in(layout: Layout, container_id: str) -> list[int]:
    """Return the processes in the cgroups of a container."""
    return processes_in_kept(layout.cgroup_file, container_id)


def lacking(detected: Detected) -> str:
    """Return, for people, what tasks are not held to and why; empty where nothing is lacking."""
    if not detected.lacks:
        return ""
    parts = [f"{_WHAT[name]} ({reason})" for name, reason in detected.lacks]
    memory = "memory" in dict(detected.lacks)
    rest = ": memory is limited by RLIMIT_DATA, for each process of a task by itself" if memory else ""
    return f"the kernel does not hold tasks to what they ask for of {', '.join(parts)}{rest}"

"""Where a run is, and what its task is executed with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import devices, members_files
from minicluster.mesos.agent.cleanup import CONTAINER_VARIABLE, SANDBOX_VARIABLE

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_OF_THE_USER = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR")


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The ids of a run, its sandbox, and the GPUs that belong to it."""

    agent_id: str
    framework_id: str
    container_id: str
    sandbox: Path
    devices: tuple[str, ...] = ()


@cache
def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def environment(task: mesos.TaskInfo, place: RunLocation, login: str | None = None) -> dict[str, str]:
    """Return a task's environment: a few variables of the agent's, Mesos' own, the task's, and its GPUs.

    ``login``: name of its user, whose home is the sandbox; None for the agent's user.
    """
    inherited = dict(_inherited())
    if login is not None:
        inherited = {name: value for name, value in inherited.items() if name not in _OF_THE_USER}
        inherited |= {"HOME": str(place.sandbox), "USER": login, "LOGNAME": login}
    out = {
        **inherited,
        SANDBOX_VARIABLE: str(place.sandbox),
        "MESOS_DIRECTORY": str(place.sandbox),
        "MESOS_SLAVE_ID": place.agent_id,
        "MESOS_FRAMEWORK_ID": place.framework_id,
        "MESOS_EXECUTOR_ID": task.task_id.value,
        "MESOS_TASK_ID": task.task_id.value,
        CONTAINER_VARIABLE: place.container_id,
    }
    for variable in task.command.environment.variables:
        out[variable.name] = variable.value
        if variable.type == mesos.Environment.Variable.SECRET:
            out[variable.name] = variable.secret.value.data.decode("utf-8", "replace")
    out |= members_files.told(task, str(place.sandbox))
    return members_files.without_parts(task, out) | devices.variables(place.devices)


def file_and_argv(command: mesos.CommandInfo) -> tuple[str, list[str]]:
    """Return what to execute, and its whole argv.

    Without arguments, the file's name stands for argv[0]: a kernel gives an empty one, which Python cannot.
    """
    if command.shell:
        return "/bin/sh", ["/bin/sh", "-c", command.value]
    first, *rest = command.arguments or [command.value]
    return command.value, [first or command.value, *rest]

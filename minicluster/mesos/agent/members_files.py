"""The files that tell a member of a gang of the others, where its command has no shell that could write them.

Peloton asks for them by labels of the task: such a label names the variables that are to have the path of the
file. The members are in the task's variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mesos.v1 import mesos_pb2 as mesos
from peloton.model.members import HOSTFILE, MEMBERS_FILE, PART, host_of, members_in
from peloton.model.system_labels import HOSTFILE_LABEL, MEMBERS_LABEL

_FILES = {MEMBERS_LABEL: MEMBERS_FILE, HOSTFILE_LABEL: HOSTFILE}


def write(task: mesos.TaskInfo, sandbox: Path, user: tuple[int, int] | None) -> None:
    """Write the files that a task asks for, before it or anybody else could put something in their place.

    Raise OSError.
    """
    asked = _asked(task)
    if not asked:
        return
    members = members_in(_given(task))
    for label in asked:
        lines = members if label == MEMBERS_LABEL else map(host_of, members)
        path = sandbox / _FILES[label]
        with path.open("x") as file:
            file.writelines(f"{line}\n" for line in lines)
        if user is not None:
            os.chown(path, *user)


def told(task: mesos.TaskInfo, sandbox: str) -> dict[str, str]:
    """Return the variables with the paths of the files, where the sandbox is at ``sandbox`` for the task.

    What the task sets itself stays as it is there.
    """
    asked = _asked(task)
    if not asked:
        return {}
    given = _given(task)
    paths = ((names, f"{sandbox}/{_FILES[label]}") for label, names in asked.items())
    return {name: path for names, path in paths for name in names.split(",") if name and name not in given}


def without_parts(task: mesos.TaskInfo, variables: dict[str, str]) -> dict[str, str]:
    """Return variables without the parts of a list that is in a file: it may be too long for a process."""
    if not _asked(task):
        return variables
    return {name: value for name, value in variables.items() if not name.startswith(PART)}


def _asked(task: mesos.TaskInfo) -> dict[str, str]:
    return {label.key: label.value for label in task.labels.labels if label.key in _FILES}


def _given(task: mesos.TaskInfo) -> Mapping[str, str]:
    return {variable.name: variable.value for variable in task.command.environment.variables}

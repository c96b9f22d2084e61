"""The secret files of runs.

A file is in the agent's own directory, where only the task's user can read it, while the run has not ended.
In the sandbox there is a link at its path: what the agent serves of sandboxes does not follow links that
lead out of them. Nothing else that the agent writes down has the content.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.common.secrets import secret_volumes, without_secrets


class SecretError(Exception):
    """A secret cannot be put at its path; the text goes into the status."""


def keep(layout: Layout, container_id: str, task: mesos.TaskInfo) -> mesos.TaskInfo:
    """Write the secrets of a task down; return the task without their contents."""
    volumes = secret_volumes(task)
    if not volumes:
        return task
    folder = layout.secrets_of(container_id)
    folder.mkdir(mode=0o711)
    for number, volume in enumerate(volumes):
        file = os.open(folder / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(file, "wb") as opened:
            opened.write(volume.source.secret.value.data)
    return without_secrets(task)


def files(layout: Layout, container_id: str, task: mesos.TaskInfo) -> Iterator[tuple[Path, str]]:
    """Yield the file of each secret of a task, and its path in the container."""
    for number, volume in enumerate(secret_volumes(task)):
        yield layout.secrets_of(container_id) / str(number), volume.container_path


def give(layout: Layout, container_id: str, task: mesos.TaskInfo, user: tuple[int, int] | None) -> None:
    """Let a task's user read its secrets."""
    if user is not None:
        for file, _ in files(layout, container_id, task):
            os.chown(file, *user)


def link(layout: Layout, container_id: str, task: mesos.TaskInfo, sandbox: Path) -> None:
    """Make the secrets appear in the sandbox, which stands for the root of the container.

    Raises SecretError where there is something else at a path, or it leads out of the sandbox.
    """
    for file, path in files(layout, container_id, task):
        at = sandbox / path.lstrip("/")
        if ".." in at.parts:
            raise SecretError(f"the secret's path {path} leads out of the container")
        at.parent.mkdir(parents=True, exist_ok=True)
        if at.is_symlink() and at.readlink() == file:
            continue  # from an earlier attempt to start the run
        try:
            at.symlink_to(file)
        except FileExistsError:
            raise SecretError(f"there is something else at the secret's path {path}") from None


def drop(layout: Layout, container_id: str) -> None:
    """Remove the secrets of a run."""
    shutil.rmtree(layout.secrets_of(container_id), ignore_errors=True)


def drop_others(layout: Layout, known: set[str]) -> None:
    """Remove the secrets of all runs but those that are known."""
    for folder in layout.secrets.iterdir():
        if folder.name not in known:
            drop(layout, folder.name)

"""The dynamic reservations and persistent volumes of an agent, which outlive its tasks and its id.

``meta/resources.json`` is the checkpoint: serialised Resource messages, base64. A volume's data is the
directory ``volumes/roles/<role>/<persistence id>``. It is created after the checkpoint names it, and removed
after the checkpoint no longer does; what a kill left undone is done at the next start.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.layout import Layout, read_json, write_json

UNSUPPORTED_PATH = (
    "Failed to mount persistent volume '{}': its container path '{}' is not a relative path inside the "
    "sandbox, which a plain process can see"
)


class MountError(Exception):
    """A volume cannot be shown to a task."""


class Volumes:
    """The reservations and volumes below one work directory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.resources: tuple[mesos.Resource, ...] = ()

    def recover(self) -> None:
        """Read the checkpoint, and finish what was interrupted."""
        saved = read_json(self._layout.resources_file) or []
        self.resources = tuple(mesos.Resource.FromString(base64.b64decode(item)) for item in saved)
        self._settle()

    def apply(self, resources: Iterable[mesos.Resource]) -> None:
        """Checkpoint reservations and volumes in place of the earlier ones; create and remove directories."""
        self.resources = tuple(resources)
        encoded = [base64.b64encode(item.SerializeToString()).decode("ascii") for item in self.resources]
        write_json(self._layout.resources_file, encoded)
        self._settle()

    def _settle(self) -> None:
        wanted = {volume_dir(self._layout, item) for item in self.resources if is_volume(item)}
        for path in wanted:
            path.mkdir(parents=True, exist_ok=True)
        for path in self._layout.volumes.glob("roles/*/*"):
            if path not in wanted:
                shutil.rmtree(path)


def is_volume(resource: mesos.Resource) -> bool:
    """Return whether a resource is a persistent volume."""
    return bool(resource.disk.persistence.id)


def volume_dir(layout: Layout, volume: mesos.Resource) -> Path:
    """Return the directory of a volume's data."""
    role = volume.reservations[-1].role if volume.reservations else volume.role
    return layout.volumes / "roles" / role / volume.disk.persistence.id


def volumes_of(task: mesos.TaskInfo) -> list[mesos.Resource]:
    """Return the persistent volumes among a task's resources."""
    return [item for item in task.resources if is_volume(item)]


def link_volumes(layout: Layout, task: mesos.TaskInfo, sandbox: Path, user: tuple[int, int] | None) -> None:
    """Link a task's volumes into its sandbox. Raise MountError, OSError."""
    for volume in volumes_of(task):
        source = volume_dir(layout, volume)
        _check(volume, source)
        link = sandbox / volume.disk.volume.container_path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source)
        if user is not None:
            os.chown(source, *user)


def _check(volume: mesos.Resource, source: Path) -> None:
    persistence_id = volume.disk.persistence.id
    text = volume.disk.volume.container_path
    path = PurePosixPath(text)
    if not path.parts or path.is_absolute() or ".." in path.parts:
        raise MountError(UNSUPPORTED_PATH.format(persistence_id, text))
    if not source.is_dir():
        raise MountError(f"Failed to mount persistent volume '{persistence_id}': it is not on this agent")

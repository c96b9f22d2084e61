"""The dynamic reservations and persistent volumes of an agent, which outlive its tasks and its id.

``meta/resources.json`` is the checkpoint: serialised Resource messages, base64. A volume's data is the
directory ``volumes/roles/<role>/<persistence id>``. It is created after the checkpoint names it, and removed
after the checkpoint no longer does; what a kill left undone is done at the next start.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from google.protobuf.message import DecodeError

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.layout import Layout, write_json
from minicluster.mesos.common.server_process import CannotRun
from peloton.config.private import FOLDER

UNSUPPORTED_PATH = (
    "Failed to mount persistent volume '{}': its container path '{}' is not a relative path inside the "
    "sandbox, which a plain process can see"
)


class DamagedCheckpoint(CannotRun):
    """The checkpoint of the volumes cannot be read."""


class MountError(Exception):
    """A volume cannot be shown to a task."""


class Volumes:
    """The reservations and volumes below one work directory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.resources: tuple[mesos.Resource, ...] = ()

    def recover(self) -> None:
        """Read the checkpoint, and finish what was interrupted.

        Raise DamagedCheckpoint: without it, no directory is known not to be a volume's.
        """
        self.resources = _read(self._layout.resources_file)
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
            path.mkdir(FOLDER, parents=True, exist_ok=True)
        for path in self._layout.volumes.glob("roles/*/*"):
            if path not in wanted:
                shutil.rmtree(path)


def _read(file: Path) -> tuple[mesos.Resource, ...]:
    try:
        saved = json.loads(file.read_bytes())
        if not isinstance(saved, list):
            raise TypeError(f"it holds a {type(saved).__name__}, not a list")
        return tuple(mesos.Resource.FromString(base64.b64decode(item)) for item in saved)
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, DecodeError) as error:
        raise DamagedCheckpoint(
            f"{file} does not name the volumes of this agent: {error}. Restore it; where no volume is needed "
            "any more, remove it"
        ) from None


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

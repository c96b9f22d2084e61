"""What a supervisor is to do for a task that docker runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import members_files, secret_files
from minicluster.mesos.agent.cleanup import CONTAINER_VARIABLE, SANDBOX_VARIABLE
from minicluster.mesos.agent.devices import container_variables
from minicluster.mesos.agent.docker_engine import own_environment
from minicluster.mesos.agent.docker_run import (
    SANDBOX,
    Allowed,
    Mount,
    NotAllowed,
    Placed,
    container_name,
    docker_run,
    inside,
    is_of_sandbox,
    split_environment,
    volumes,
)
from minicluster.mesos.agent.isolation import Isolation
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.location import INHERITED, RunLocation, environment
from minicluster.mesos.agent.task_limits import Wanted, limits_of
from minicluster.mesos.agent.volumes import volume_dir, volumes_of
from peloton.config.private import FOLDER

ENVIRONMENT = "environment"
"""The file of a container's variables, beside its secrets."""


class DockerTasks:
    """Describes the containers of one agent."""

    def __init__(self, layout: Layout, isolation: Isolation, wanted: Wanted, allowed: Allowed) -> None:
        self._layout = layout
        self._isolation = isolation
        self._wanted = wanted
        self._allowed = allowed

    def spec(self, task: mesos.TaskInfo, place: RunLocation, user: tuple[int, int] | None) -> dict[str, Any]:
        """Return what is special in the order of a supervisor. Raise NotAllowed, OSError."""
        name, limits = container_name(place.container_id), limits_of(task, self._wanted)
        own = {
            **own_environment(),
            CONTAINER_VARIABLE: place.container_id,
            SANDBOX_VARIABLE: str(place.sandbox),
        }
        text, others = split_environment(self._variables(task, place, name), own)
        env_file = self._write(place.container_id, text)
        mounts = self._mounts(task, place, user)
        placed = Placed(name, str(env_file), mounts, tuple(others), user)
        argv = docker_run(task, placed, limits, self._allowed)
        return {
            "file": argv[0],
            "argv": argv,
            "env": {**own, **others},
            "after": ["docker", "rm", "--force", "--volumes", name],
            "running_asked": ["docker", "inspect", "--format={{.State.Running}}", name],
            "oom_asked": ["docker", "inspect", "--format={{.State.OOMKilled}}", name],
            "memory_limit": limits.memory,
        }

    def _variables(self, task: mesos.TaskInfo, place: RunLocation, name: str) -> dict[str, str]:
        """Return the variables of a container: the task's and Mesos', none that are the agent's."""
        given = {variable.name for variable in task.command.environment.variables}
        found = environment(task, place)
        found = {key: value for key, value in found.items() if key in given or key not in INHERITED}
        found |= container_variables(place.devices) | members_files.told(task, SANDBOX)
        return {**found, SANDBOX_VARIABLE: SANDBOX, "MESOS_CONTAINER_NAME": name}

    def _write(self, container_id: str, text: str) -> Path:
        folder = self._layout.secrets_of(container_id)
        folder.mkdir(mode=0o711, exist_ok=True)
        path = folder / ENVIRONMENT
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        return path

    def _mounts(
        self, task: mesos.TaskInfo, place: RunLocation, user: tuple[int, int] | None
    ) -> tuple[Mount, ...]:
        kept = [
            Mount(str(volume_dir(self._layout, each)), inside(each.disk.volume.container_path))
            for each in volumes_of(task)
        ]
        secrets = [
            Mount(str(file), inside(path), read_only=True)
            for file, path in secret_files.files(self._layout, place.container_id, task)
        ]
        described = list(volumes(task.container, str(place.sandbox)))
        plain = [each for each in task.container.volumes if each.source.type != mesos.Volume.Source.SECRET]
        for volume, mount in zip(plain, described, strict=True):
            if is_of_sandbox(volume):
                _make(Path(mount.source), user)
            else:
                self._check(mount.source)
        return (Mount(str(place.sandbox), SANDBOX), *kept, *secrets, *described)

    def _check(self, path: str) -> None:
        """Raise NotAllowed for a path of the host in a folder that tasks do not see, or with one in it."""
        real = os.path.realpath(path)
        above = (hidden for hidden in self._isolation.hidden if hidden.startswith(f"{real.rstrip('/')}/"))
        if self._isolation.hides(real) or any(above):
            raise NotAllowed(f"the host path {path!r} of a volume has what isolated tasks are not to see")


def _make(folder: Path, user: tuple[int, int] | None) -> None:
    folder.mkdir(FOLDER, parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, *user)

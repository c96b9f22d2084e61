"""Create sandboxes, and derive the orders of supervisors from tasks."""

from __future__ import annotations

import json
import marshal
import os
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import members_files, secret_files
from minicluster.mesos.agent.cgroups.groups import Cgroups
from minicluster.mesos.agent.docker_engine import NOT_RUN, EngineError, provide, require_bridge, why_not_run
from minicluster.mesos.agent.docker_run import Allowed, NotAllowed, image_of
from minicluster.mesos.agent.docker_tasks import DockerTasks
from minicluster.mesos.agent.fetcher import FetchError, fetch
from minicluster.mesos.agent.isolation import NOTHING, Isolation, named_user
from minicluster.mesos.agent.layout import Layout, overwrite
from minicluster.mesos.agent.location import RunLocation, environment, file_and_argv
from minicluster.mesos.agent.supervisor_pool import Order
from minicluster.mesos.agent.task_limits import NO_LIMITS, TaskLimits
from minicluster.mesos.agent.volumes import MountError, link_volumes, volume_dir, volumes_of
from peloton.config.private import FOLDER

_OUTPUT = 0o644
"""The mode of a task's output, as Mesos has it: the sandbox is closed to others."""
_LAST_BYTES = 4096
NOTHING_MORE = Allowed()
T = TypeVar("T")


class LaunchError(Exception):
    """A container cannot be launched; the text goes into the status."""


class NoContainerizer(LaunchError):
    """This agent has no containerizer for containers of this kind."""


class Images(StrEnum):
    """How a task with an image is run."""

    REFUSE = "refuse"
    """It fails, as on an agent that has neither the docker containerizer nor image providers."""
    DOCKER = "docker"
    """Docker runs it."""
    PLAIN = "plain"
    """It is run as a plain process."""


_NO_IMAGES = "this agent runs no images: start the minicluster with --images docker, or --images plain"


def _refuse_images(container: mesos.ContainerInfo) -> None:
    """Raise LaunchError for what only docker, or an image provider, could run."""
    if container.HasField("type") and container.type == mesos.ContainerInfo.DOCKER:
        raise NoContainerizer(f"Abnormal executor termination: unknown container; {_NO_IMAGES}")
    if container.mesos.HasField("image"):
        kind = mesos.Image.Type.Name(container.mesos.image.type)
        raise LaunchError(f"Unsupported container image type: {kind}; {_NO_IMAGES}")


def make_sandbox(layout: Layout, agent_id: str, framework_id: str, task_id: str, container_id: str) -> Path:
    """Create a sandbox with empty stdout and stderr and point ``latest`` at it."""
    runs = str(layout.executor(agent_id, framework_id, task_id))
    sandbox = f"{runs}/{container_id}"
    os.makedirs(sandbox, FOLDER)  # noqa: PTH103 - it looks for what is there from below, at less than half the cost
    for name in ("stdout", "stderr"):
        file = os.open(f"{sandbox}/{name}", os.O_WRONLY | os.O_CREAT)
        os.fchmod(file, _OUTPUT)
        os.close(file)
    try:
        os.symlink(sandbox, f"{runs}/latest")  # noqa: PTH211
    except FileExistsError:
        link = Path(f"{runs}/.latest-{container_id}")
        link.symlink_to(sandbox)
        link.replace(f"{runs}/latest")
    return Path(sandbox)


class Launcher:
    """Prepares the runs of one agent."""

    def __init__(
        self,
        layout: Layout,
        limits: TaskLimits,
        images: Images = Images.REFUSE,
        isolation: Isolation = NOTHING,
        allowed: Allowed = NOTHING_MORE,
    ) -> None:
        """Let containers ask for what is ``allowed``."""
        self.isolation = isolation
        self._layout = layout
        self._limits = limits
        self._images = images
        self._docker = DockerTasks(layout, isolation, limits.wanted, allowed)

    @property
    def cgroups(self) -> Cgroups:
        """The cgroups of the tasks."""
        return self._limits.cgroups

    def prepare(self, task: mesos.TaskInfo, place: RunLocation) -> dict[str, Any]:
        """Fetch URIs and work out what the supervisor is to do.

        Raise LaunchError.
        """
        if self._images is Images.REFUSE:
            _refuse_images(task.container)
        user = self._user(task, place)
        try:
            members_files.write(task, place.sandbox, user)
        except OSError as error:
            raise LaunchError(f"The list of its gang cannot be written: {error}") from error
        self._mount(task, place, user)
        for uri in task.command.uris:
            try:
                fetch(uri, place.sandbox, user, self.isolation.hides)
            except FetchError as error:
                with (place.sandbox / "stderr").open("a") as file:
                    file.write(f"Failed to fetch: {error}\n")
                raise LaunchError(
                    f"Failed to fetch all URIs for container '{place.container_id}': exited with status 1"
                ) from error
        return self._spec(task, place, user)

    def _user(self, task: mesos.TaskInfo, place: RunLocation) -> tuple[int, int] | None:
        """Return whom to run as, the owner of the sandbox. Raise LaunchError."""
        sandbox, name = place.sandbox, task.command.user
        try:
            user = self.isolation.user_of(task, place.container_id)
        except KeyError:
            raise LaunchError(
                f"Failed to chown '{sandbox / 'stdout'}' to user '{name}' : No such user '{name}'"
            ) from None
        if user is not None:
            for path in (sandbox, sandbox / "stdout", sandbox / "stderr"):
                os.chown(path, *user)
        return user

    def _kept(self, task: mesos.TaskInfo, place: RunLocation) -> list[Path]:
        """Return the folders that an enclosed task has."""
        volumes = [volume_dir(self._layout, volume) for volume in volumes_of(task)]
        secrets = self._layout.secrets_of(place.container_id)
        return [place.sandbox, *volumes, *([secrets] if secrets.is_dir() else [])]

    def in_docker(self, task: mesos.TaskInfo) -> bool:
        """Return whether docker runs a task."""
        return self._images is Images.DOCKER and image_of(task) is not None

    def _mount(self, task: mesos.TaskInfo, place: RunLocation, user: tuple[int, int] | None) -> None:
        """Show a task its persistent volumes, unless docker mounts them."""
        if self.in_docker(task):
            return
        try:
            link_volumes(self._layout, task, place.sandbox, user)
        except MountError as error:
            raise LaunchError(str(error)) from error

    def _spec(self, task: mesos.TaskInfo, place: RunLocation, user: tuple[int, int] | None) -> dict[str, Any]:
        in_docker = self.in_docker(task)
        special = self._in_docker(task, place) if in_docker else self._as_processes(task, place, user)
        return {
            "container": place.container_id,
            "cwd": str(place.sandbox),
            "stdout": f"{place.sandbox}/stdout",
            "stderr": f"{place.sandbox}/stderr",
            "pid_file": self._layout.pid_file(place.container_id),
            "exit_file": self._layout.exit_file(place.container_id),
            "uid": user[0] if user and not in_docker else None,
            "gid": user[1] if user and not in_docker else None,
            **special,
            "after_json": json.dumps(special["after"]),
        }

    def _as_processes(
        self, task: mesos.TaskInfo, place: RunLocation, user: tuple[int, int] | None
    ) -> dict[str, Any]:
        secret_files.give(self._layout, place.container_id, task, user)
        try:
            secret_files.link(self._layout, place.container_id, task, place.sandbox)
        except secret_files.SecretError as error:
            raise LaunchError(str(error)) from None
        if (image := image_of(task)) is not None:
            with (place.sandbox / "stderr").open("a") as stderr:
                stderr.write(f"The image {shlex.quote(image)} is left aside: this is a plain process\n")
        file, argv = file_and_argv(task.command)
        isolation = self.isolation
        kept = self._kept(task, place) if isolation.encloses else []
        return {
            "file": file,
            "argv": argv,
            "env": environment(task, place, self.isolation.login_of(task, user)),
            **self._limits.apply(task, place.container_id),
            "enclosure": isolation.enclosure(kept, user, place.sandbox),
            "after": None,
            "running_asked": None,
            "oom_asked": None,
            "memory_limit": 0,
        }

    def _in_docker(self, task: mesos.TaskInfo, place: RunLocation) -> dict[str, Any]:
        """Have the image, and describe the container. Raise LaunchError."""
        named = named_user(task.command)
        secret_files.give(self._layout, place.container_id, task, named)
        try:
            special = self._docker.spec(task, place, named)
            provide(image_of(task) or "", task.container.docker.force_pull_image)
            if task.container.docker.network == mesos.ContainerInfo.DockerInfo.BRIDGE:
                require_bridge()
        except (NotAllowed, EngineError) as error:
            raise LaunchError(str(error)) from None
        return {**special, **NO_LIMITS, "enclosure": None}

    def why_not_run(self, task: mesos.TaskInfo, place: RunLocation, status: int) -> str:
        """Return why docker did not run a task that ended with a wait status; empty where it did."""
        if not self.in_docker(task) or not os.WIFEXITED(status) or os.WEXITSTATUS(status) != NOT_RUN:
            return ""
        try:
            with (place.sandbox / "stderr").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
                return why_not_run(file.read())
        except OSError:
            return ""

    def order(self, run: T, spec: dict[str, Any], attempt: int) -> Order[T]:
        """Write down what the supervisor is to do, and return the order for it."""
        claim = self._layout.claim(spec["container"], attempt)
        overwrite(claim, marshal.dumps(spec))
        return Order(run, claim)

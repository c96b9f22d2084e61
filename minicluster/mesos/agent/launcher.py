"""Create sandboxes, and derive the orders of supervisors from tasks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import marshal
import os
import pwd
import shlex
import shutil
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent import secret_files
from minicluster.mesos.agent.cleanup import CONTAINER_VARIABLE
from minicluster.mesos.agent.fetcher import FetchError, fetch
from minicluster.mesos.agent.layout import Layout, overwrite
from minicluster.mesos.agent.memory_limits import MemoryLimits
from minicluster.mesos.agent.supervisor_pool import Order
from minicluster.mesos.agent.volumes import MountError, link_volumes, volume_dir, volumes_of
from minicluster.mesos.common import resources as res
from peloton.config.private import FOLDER

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR")
_DOCKER_PATIENCE_SECONDS = 3.0
_OUTPUT = 0o644
"""The mode of a task's output, as Mesos has it: the sandbox is closed to others."""
_SANDBOX_IN_DOCKER = "/mnt/mesos/sandbox"
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


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The ids of a run, and its sandbox."""

    agent_id: str
    framework_id: str
    container_id: str
    sandbox: Path


def image_of(task: mesos.TaskInfo) -> str | None:
    """Return the container image of a task, None without one."""
    container = task.container
    if container.HasField("docker"):
        return container.docker.image
    if container.mesos.image.HasField("docker"):
        return container.mesos.image.docker.name
    return None


def _refuse_images(container: mesos.ContainerInfo) -> None:
    """Raise LaunchError for what only docker, or an image provider, could run."""
    if container.HasField("type") and container.type == mesos.ContainerInfo.DOCKER:
        raise NoContainerizer("Abnormal executor termination: unknown container")
    if container.mesos.HasField("image"):
        raise LaunchError(
            f"Unsupported container image type: {mesos.Image.Type.Name(container.mesos.image.type)}"
        )


async def docker_answers() -> bool:
    """Return whether there is a docker client here whose engine answers."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    process = await asyncio.create_subprocess_exec(
        docker,
        "info",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_DOCKER_PATIENCE_SECONDS):
            return await process.wait() == 0
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return False


@cache
def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


def environment(task: mesos.TaskInfo, place: RunLocation) -> dict[str, str]:
    """Return a task's environment: a few variables of the agent's, Mesos' own, then the task's."""
    out = {
        **_inherited(),
        "MESOS_SANDBOX": str(place.sandbox),
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
    return out


def file_and_argv(command: mesos.CommandInfo) -> tuple[str, list[str]]:
    """Return what to execute, and its whole argv.

    Without arguments, the file's name stands for argv[0]: a kernel gives an empty one, which Python cannot.
    """
    if command.shell:
        return "/bin/sh", ["/bin/sh", "-c", command.value]
    first, *rest = command.arguments or [command.value]
    return command.value, [first or command.value, *rest]


def _argv_in_image(command: mesos.CommandInfo) -> list[str]:
    """Return what follows the image's name, where a file comes before all its arguments, as Mesos has it."""
    if command.shell:
        return file_and_argv(command)[1] if command.value else []
    return [*([command.value] if command.value else []), *command.arguments]


def _docker_argv(
    image: str, task: mesos.TaskInfo, place: RunLocation, env: dict[str, str], mounts: list[str]
) -> list[str]:
    inside = _SANDBOX_IN_DOCKER
    memory = max(_memory(task), 0) // (1024 * 1024)
    argv = ["docker", "run", "--rm", "--init", "--name", f"mesos-{place.container_id}", "--net=host"]
    argv += ["-v", f"{place.sandbox}:{inside}", "-w", inside, *mounts]
    argv += [f"--memory={memory}m"] if memory else []
    shown = {**env, "MESOS_SANDBOX": inside}
    for name in sorted(set(shown) - set(_INHERITED)):
        argv += ["-e", f"{name}={shown[name]}"]
    return [*argv, image, *_argv_in_image(task.command)]


def _memory(task: mesos.TaskInfo) -> int:
    """Return a task's memory in bytes."""
    return res.scalars(res.from_messages(task.resources)).get("mem", 0) * 1024 * 1024 // 1000


def user_of(command: mesos.CommandInfo) -> tuple[int, int] | None:
    """Return whom to run as, None for the agent's own user; only root can choose. Raise KeyError."""
    if os.geteuid() != 0 or not command.user or command.user == "root":
        return None
    entry = pwd.getpwnam(command.user)
    return entry.pw_uid, entry.pw_gid


def _user(command: mesos.CommandInfo, sandbox: Path) -> tuple[int, int] | None:
    """Return whom to run as, the owner of the sandbox. Raise LaunchError."""
    try:
        user = user_of(command)
    except KeyError:
        raise LaunchError(
            f"Failed to chown '{sandbox / 'stdout'}' to user '{command.user}' : No such user '{command.user}'"
        ) from None
    if user is not None:
        for path in (sandbox, sandbox / "stdout", sandbox / "stderr"):
            os.chown(path, *user)
    return user


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

    def __init__(self, layout: Layout, limits: MemoryLimits, images: Images = Images.REFUSE) -> None:
        self._layout = layout
        self._limits = limits
        self._images = images

    def prepare(self, task: mesos.TaskInfo, place: RunLocation) -> dict[str, Any]:
        """Fetch URIs and work out what the supervisor is to do.

        Raise LaunchError.
        """
        if self._images is Images.REFUSE:
            _refuse_images(task.container)
        user = _user(task.command, place.sandbox)
        self._mount(task, place, user)
        for uri in task.command.uris:
            try:
                fetch(uri, place.sandbox, user)
            except FetchError as error:
                with (place.sandbox / "stderr").open("a") as file:
                    file.write(f"Failed to fetch: {error}\n")
                raise LaunchError(
                    f"Failed to fetch all URIs for container '{place.container_id}': exited with status 1"
                ) from error
        return self._spec(task, place, user)

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
        env = environment(task, place)
        image = image_of(task)
        in_docker = self.in_docker(task)
        (file, argv), after = file_and_argv(task.command), None
        secret_files.give(self._layout, place.container_id, task, None if in_docker else user)
        if not in_docker:
            try:
                secret_files.link(self._layout, place.container_id, task, place.sandbox)
            except secret_files.SecretError as error:
                raise LaunchError(str(error)) from None
        if image is not None and in_docker:
            mounts = self._docker_mounts(task)
            for secret, path in secret_files.files(self._layout, place.container_id, task):
                mounts += ["-v", f"{secret}:{path}:ro"]
            argv = _docker_argv(image, task, place, env, mounts)
            file, after = argv[0], ["docker", "rm", "-f", f"mesos-{place.container_id}"]
        elif image is not None:
            with (place.sandbox / "stderr").open("a") as stderr:
                stderr.write(f"The image {shlex.quote(image)} is left aside: this is a plain process\n")
        cgroup, data_limit = self._limit(task, place, after is not None)
        return {
            "container": place.container_id,
            "file": file,
            "argv": argv,
            "env": env,
            "cwd": str(place.sandbox),
            "stdout": f"{place.sandbox}/stdout",
            "stderr": f"{place.sandbox}/stderr",
            "pid_file": self._layout.pid_file(place.container_id),
            "exit_file": self._layout.exit_file(place.container_id),
            "uid": user[0] if user else None,
            "gid": user[1] if user else None,
            "cgroup": cgroup,
            "data_limit": data_limit,
            "after": after,
            "after_json": json.dumps(after),
        }

    def _docker_mounts(self, task: mesos.TaskInfo) -> list[str]:
        mounts = []
        for volume in volumes_of(task):
            inside = PurePosixPath(_SANDBOX_IN_DOCKER) / volume.disk.volume.container_path
            mounts += ["-v", f"{volume_dir(self._layout, volume)}:{inside}"]
        return mounts

    def _limit(
        self, task: mesos.TaskInfo, place: RunLocation, in_docker: bool
    ) -> tuple[str | None, int | None]:
        memory = _memory(task)
        if in_docker or memory <= 0:
            return None, None
        return self._limits.apply(place.container_id, memory)

    def order(self, run: T, spec: dict[str, Any], attempt: int) -> Order[T]:
        """Write down what the supervisor is to do, and return the order for it."""
        claim = self._layout.claim(spec["container"], attempt)
        overwrite(claim, marshal.dumps(spec))
        return Order(run, claim)

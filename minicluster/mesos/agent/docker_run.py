"""The command line by which docker runs a task, from the task: no effects.

Source of the forms: the flags of Mesos' docker containerizer. What it passes on as it comes, every parameter
and privileges, has to be allowed here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cgroups.limits import PERIOD_MICROSECONDS, Limits, quota, shares
from minicluster.mesos.agent.location import file_and_argv

SANDBOX = "/mnt/mesos/sandbox"
PARAMETERS = frozenset(
    {
        *("add-host", "cap-drop", "dns", "dns-option", "dns-search", "expose", "group-add", "hostname"),
        *("label", "read-only", "shm-size", "stop-signal", "tmpfs", "ulimit", "workdir"),
    }
)
"""Options of `docker run` that give a container nothing of its host, and undo no limit."""
_Docker = mesos.ContainerInfo.DockerInfo
_NETWORKS = {_Docker.HOST: "host", _Docker.BRIDGE: "bridge", _Docker.NONE: "none"}
_MAPPED = (_Docker.BRIDGE, _Docker.USER)
_PROTOCOLS = ("tcp", "udp", "sctp")
_OF_DOCKER = ("DOCKER_", "LD_", "GO", "SSL_", "XDG_")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class NotAllowed(ValueError):
    """A container cannot be run as it is described; the text goes into the status."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host, and where it is in the container."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Allowed:
    """What tasks may ask for besides `PARAMETERS`."""

    parameters: frozenset[str] = frozenset()
    privileged: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """What the agent adds to the description of a container. ``env_file``: the file of its variables.

    ``variables`` are those that no such file can have; their values are in the environment of `docker`.
    """

    name: str
    env_file: str
    mounts: tuple[Mount, ...] = ()
    variables: tuple[str, ...] = ()
    user: tuple[int, int] | None = None


def container_name(container_id: str) -> str:
    """Return the name that a container has in the engine, as Mesos gives it."""
    return f"mesos-{container_id}"


def image_of(task: mesos.TaskInfo) -> str | None:
    """Return the container image of a task, None without one."""
    container = task.container
    if container.HasField("docker"):
        return container.docker.image
    if container.mesos.image.HasField("docker"):
        return container.mesos.image.docker.name
    return None


def docker_run(task: mesos.TaskInfo, placed: Placed, limits: Limits, allowed: Allowed) -> list[str]:
    """Return the command line. Raise NotAllowed."""
    image = image_of(task) or ""
    if not image or image.startswith("-"):
        raise NotAllowed(f"{image!r} is not the name of an image")
    options = [
        *("--name", placed.name, "--init", "--pull=never", f"--workdir={SANDBOX}"),
        f"--env-file={placed.env_file}",
        *(f"--env={name}" for name in placed.variables),
        *(_mount(mount) for mount in placed.mounts),
        *_network(task),
        *_limits(limits),
        *([f"--user={placed.user[0]}:{placed.user[1]}"] if placed.user else []),
        *_privileges(task.container.docker, allowed),
        *_parameters(task.container.docker, allowed.parameters),
    ]
    entrypoint, arguments = _command(task)
    return ["docker", "run", *options, *entrypoint, image, *arguments]


def volumes(container: mesos.ContainerInfo, sandbox: str) -> Iterator[Mount]:
    """Yield the volumes of a container, but secrets. Raise NotAllowed for a kind that docker has not here."""
    for volume in container.volumes:
        if volume.source.type == mesos.Volume.Source.SECRET:
            continue
        read_only = volume.mode == mesos.Volume.RO
        yield Mount(_source(volume, sandbox), inside(volume.container_path), read_only)


def inside(path: str) -> str:
    """Return a container's path; a relative one is in the sandbox. Raise NotAllowed."""
    if not path or ".." in PurePosixPath(path).parts:
        raise NotAllowed(f"the container path {path!r} of a volume is not a path in the container")
    return str(PurePosixPath(SANDBOX) / path)


def is_of_sandbox(volume: mesos.Volume) -> bool:
    """Return whether the agent makes the folder of a volume in the sandbox."""
    if volume.HasField("host_path"):
        return not PurePosixPath(volume.host_path).is_absolute()
    return volume.source.type == mesos.Volume.Source.SANDBOX_PATH


def _source(volume: mesos.Volume, sandbox: str) -> str:
    source = volume.source
    if volume.HasField("host_path"):
        path = volume.host_path
    elif source.type == mesos.Volume.Source.HOST_PATH:
        path = source.host_path.path
    elif source.type == mesos.Volume.Source.SANDBOX_PATH:
        path = source.sandbox_path.path
        if PurePosixPath(path).is_absolute() or source.sandbox_path.type == source.sandbox_path.PARENT:
            raise NotAllowed(f"the volume {path!r} is not a relative path in the task's own sandbox")
    else:
        kind = mesos.Volume.Source.Type.Name(source.type)
        raise NotAllowed(f"volumes of type {kind} are not run by this agent: take HOST_PATH or SANDBOX_PATH")
    if not path or ".." in PurePosixPath(path).parts:
        raise NotAllowed(f"the host path {path!r} of a volume is not a path without ..")
    return str(PurePosixPath(sandbox) / path)


def _mount(mount: Mount) -> str:
    for path in (mount.source, mount.target):
        if ":" in path:
            raise NotAllowed(f"the path {path!r} of a volume has a colon, which ends it for docker")
    return f"--volume={mount.source}:{mount.target}{':ro' if mount.read_only else ''}"


def _network(task: mesos.TaskInfo) -> Iterator[str]:
    container, docker = task.container, task.container.docker
    network = docker.network
    name = _NETWORKS.get(network)
    if name is None:
        name = container.network_infos[0].name if container.network_infos else ""
        if not _NAME.fullmatch(name):
            raise NotAllowed(f"the network {name!r} of the container is not a name of a network of docker")
    yield f"--network={name}"
    if container.hostname and network != _Docker.HOST:
        yield f"--hostname={container.hostname}"
    if docker.port_mappings and network not in _MAPPED:
        raise NotAllowed("ports are mapped in the networks BRIDGE and USER only, not in HOST and NONE")
    for mapping in docker.port_mappings:
        yield f"--publish={_mapping(mapping, task.resources)}"


def _mapping(mapping: mesos.ContainerInfo.DockerInfo.PortMapping, resources: Iterable[mesos.Resource]) -> str:
    ranges = [each for one in resources if one.name == "ports" for each in one.ranges.range]
    if not any(each.begin <= mapping.host_port <= each.end for each in ranges):
        raise NotAllowed(f"the host port {mapping.host_port} that is mapped is not among the task's ports")
    protocol = mapping.protocol.lower() or "tcp"
    if protocol not in _PROTOCOLS or not 0 < mapping.container_port < 1 << 16:
        raise NotAllowed(f"{mapping.container_port}/{mapping.protocol} is not a port and tcp, udp or sctp")
    return f"{mapping.host_port}:{mapping.container_port}/{protocol}"


def _limits(limits: Limits) -> Iterator[str]:
    if limits.memory:
        yield from (f"--memory={limits.memory}", f"--memory-swap={limits.memory}")
    if limits.cpus:
        yield f"--cpu-shares={shares(limits.cpus)}"
        if limits.ceiling:
            yield from (f"--cpu-period={PERIOD_MICROSECONDS}", f"--cpu-quota={quota(limits.cpus)}")
    if limits.pids:
        yield f"--pids-limit={limits.pids}"


def _privileges(docker: _Docker, allowed: Allowed) -> Iterator[str]:
    if docker.privileged and not allowed.privileged:
        raise NotAllowed("privileged containers are not allowed on this agent (--docker-privileged)")
    if docker.privileged:
        yield "--privileged"


def _parameters(docker: _Docker, allowed: Collection[str]) -> Iterator[str]:
    for parameter in docker.parameters:
        if parameter.key not in PARAMETERS and parameter.key not in allowed:
            raise NotAllowed(
                f"the parameter {parameter.key!r} of docker is not allowed on this agent "
                f"(--docker-parameters); allowed are {', '.join(sorted({*PARAMETERS, *allowed}))}"
            )
        yield f"--{parameter.key}={parameter.value}"


def _command(task: mesos.TaskInfo) -> tuple[list[str], list[str]]:
    """Return the option for the entrypoint, and what follows the image.

    A shell is in place of the image's entrypoint. Without one Mesos has two rules: its docker containerizer
    gives a file and arguments to the entrypoint; its own containerizer runs the file in place of it, with an
    argv whose first word is argv[0], which here is always the file: docker takes no other.
    """
    command = task.command
    if command.shell and not command.value:
        return [], []
    if command.shell or (command.value and not task.container.HasField("docker")):
        file, argv = file_and_argv(command)
        return [f"--entrypoint={file}"], argv[1:]
    return [], [*([command.value] if command.value else []), *command.arguments]


def split_environment(variables: Mapping[str, str], own: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the text of a file of variables, and those that it cannot have: values of several lines.

    These go through the environment of `docker` itself. Raise NotAllowed for a name that counts there.
    """
    lines, others = [], {}
    for name, value in sorted(variables.items()):
        if not name or "=" in name or name.startswith("#") or name != name.strip() or "\n" in name:
            raise NotAllowed(f"{name!r} is not a name of a variable that docker can set")
        if "\n" not in value and "\r" not in value:
            lines.append(f"{name}={value}\n")
        elif name in own or name.startswith(_OF_DOCKER) or name.lower().endswith("_proxy"):
            raise NotAllowed(f"the variable {name} has several lines, and `docker` itself uses that name")
        else:
            others[name] = value
    return "".join(lines), others

"""Secret files in the configs of tasks: volumes of Mesos that carry a secret."""

from __future__ import annotations

from collections.abc import Iterator

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument


def is_secret(volume: mesos_pb2.Volume) -> bool:
    """Return whether a volume carries a secret."""
    return volume.source.type == mesos_pb2.Volume.Source.SECRET or volume.source.HasField("secret")


def add_secret(config: task_pb2.TaskConfig, path: str, data: bytes) -> None:
    """Add a secret file to a config that is launched, in a container of Mesos where it has none."""
    if not config.HasField("container"):
        config.container.type = mesos_pb2.ContainerInfo.MESOS
    volume = config.container.volumes.add(mode=mesos_pb2.Volume.RO, container_path=path)
    volume.source.type = mesos_pb2.Volume.Source.SECRET
    volume.source.secret.type = mesos_pb2.Secret.VALUE
    volume.source.secret.value.data = data


def check_no_secrets(config: task_pb2.TaskConfig, path: str) -> None:
    """Raise InvalidArgument, with the path of the field, for a config that carries secrets itself."""
    for i, volume in enumerate(config.container.volumes):
        if is_secret(volume):
            at = f"{path}.container.volumes[{i}].source"
            raise InvalidArgument(at, "a secret", "allowed in a config: give it in `secrets`")


def check_takes_secrets(config: task_pb2.TaskConfig, path: str) -> None:
    """Raise InvalidArgument unless the container is one into which Mesos puts secret files."""
    if not config.HasField("container"):
        found = "no container"
    elif config.container.type == mesos_pb2.ContainerInfo.MESOS:
        return
    else:
        found = mesos_pb2.ContainerInfo.Type.Name(config.container.type)
    raise InvalidArgument(f"{path}.container.type", found, "MESOS, which a job with secrets must have")


def mounted(config: task_pb2.TaskConfig, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of the field, and the path in the container, of each volume."""
    for i, volume in enumerate(config.container.volumes):
        yield f"{path}.container.volumes[{i}].container_path", volume.container_path

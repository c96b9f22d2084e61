"""Launches between jobmgr and hostmgr, in the model's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.ids import MesosTaskId
from peloton.model.resources import Resources, milli
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.hosts import scalar
from peloton.wire.task import resources_from


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """What the config of a task says of its launch."""

    config: task_pb2.TaskConfig
    resources: Resources
    ports: Mapping[str, int]
    """By name; 0 for dynamic ones."""

    @classmethod
    def of(cls, config: task_pb2.TaskConfig, path: str) -> LaunchConfig:
        """Read a config. Raises InvalidArgument for invalid amounts."""
        resources = resources_from(config.resource, f"{path}.resource")
        return cls(config, resources, {port.name: port.value for port in config.ports})

    def launch(self, run: MesosTaskId, given: Mapping[str, int], volume: VolumeMount | None) -> Launch:
        """Return the launch of a run. Raises InvalidArgument where a dynamic port has no number."""
        if not self.ports:
            return Launch(run, self.resources, self.config, self.config.revocable, {}, (), volume)
        dynamic = tuple(name for name, value in self.ports.items() if not value)
        for name in dynamic:
            if not given.get(name):
                raise InvalidArgument(f"tasks[{run}].ports[{name}]", 0, "the number of a free port")
        ports = {name: value or given[name] for name, value in self.ports.items()}
        taken = tuple(given[name] for name in dynamic)
        return Launch(run, self.resources, self.config, self.config.revocable, ports, taken, volume)


def launch_from(wire: hostsvc_pb2.LaunchableTask) -> Launch:
    """Translate a task to launch. Raises InvalidArgument where a dynamic port has no number."""
    path = f"tasks[{wire.taskId.value}]"
    config = LaunchConfig.of(wire.config, f"{path}.config")
    volume = volume_from(wire.volume, f"{path}.volume") if wire.HasField("volume") else None
    return config.launch(wire.taskId.value, wire.ports, volume)


def volume_to(mount: VolumeMount) -> hostsvc_pb2.Volume:
    """Encode the volume of a run; `resource` is given for a new one only."""
    wire = hostsvc_pb2.Volume(id=peloton_pb2.VolumeID(value=mount.id), containerPath=mount.container_path)
    if mount.create:
        wire.resource.CopyFrom(scalar("disk", mount.size))
    return wire


def volume_from(wire: hostsvc_pb2.Volume, path: str) -> VolumeMount:
    """Translate the volume of a run. Raises InvalidArgument."""
    if not wire.id.value:
        raise InvalidArgument(f"{path}.id", "", "the id of a volume")
    if not wire.containerPath:
        raise InvalidArgument(f"{path}.containerPath", "", "the path of the volume in the container")
    size = milli(wire.resource.scalar.value)
    if wire.HasField("resource") and size <= 0:
        raise InvalidArgument(f"{path}.resource.scalar", wire.resource.scalar.value, "a size in MB above 0")
    return VolumeMount(wire.id.value, size, wire.containerPath, wire.HasField("resource"))

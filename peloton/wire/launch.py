"""Launches between jobmgr and hostmgr, in the model's terms."""

from __future__ import annotations

from peloton.api.v0 import peloton_pb2
from peloton.errors import InvalidArgument
from peloton.model.resources import milli
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.hosts import scalar
from peloton.wire.task import resources_from


def launch_from(wire: hostsvc_pb2.LaunchableTask) -> Launch:
    """Translate a task to launch. Raises InvalidArgument where a dynamic port has no number."""
    config, path = wire.config, f"tasks[{wire.taskId.value}]"
    dynamic = [port.name for port in config.ports if not port.value]
    for name in dynamic:
        if not wire.ports.get(name):
            raise InvalidArgument(f"{path}.ports[{name}]", 0, "the number of a free port")
    return Launch(
        wire.taskId.value,
        resources_from(config.resource, f"{path}.config.resource"),
        config,
        config.revocable,
        {port.name: port.value or wire.ports[port.name] for port in config.ports},
        tuple(wire.ports[name] for name in dynamic),
        _volume(wire.volume, f"{path}.volume") if wire.HasField("volume") else None,
    )


def volume_to(mount: VolumeMount) -> hostsvc_pb2.Volume:
    """Encode the volume of a run; `resource` is given for a new one only."""
    wire = hostsvc_pb2.Volume(id=peloton_pb2.VolumeID(value=mount.id), containerPath=mount.container_path)
    if mount.create:
        wire.resource.CopyFrom(scalar("disk", mount.size))
    return wire


def _volume(wire: hostsvc_pb2.Volume, path: str) -> VolumeMount:
    if not wire.id.value:
        raise InvalidArgument(f"{path}.id", "", "the id of a volume")
    if not wire.containerPath:
        raise InvalidArgument(f"{path}.containerPath", "", "the path of the volume in the container")
    size = milli(wire.resource.scalar.value)
    if wire.HasField("resource") and size <= 0:
        raise InvalidArgument(f"{path}.resource.scalar", wire.resource.scalar.value, "a size in MB above 0")
    return VolumeMount(wire.id.value, size, wire.containerPath, wire.HasField("resource"))

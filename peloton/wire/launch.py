"""Launches between jobmgr and hostmgr, in the model's terms."""

from __future__ import annotations

from peloton.errors import InvalidArgument
from peloton.model.task import Launch
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
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
    )

"""The registry: which agents were admitted, kept across restarts and changes of the master.

A real master keeps it in a replicated log. Here it is one JSON document: in the work directory of a master
that is alone, in a ZooKeeper node where several elect one among them (`node_registry`).
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from google.protobuf.message import DecodeError

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.master.core.agents import expect_recovered
from minicluster.mesos.master.core.maintenance import restore
from minicluster.mesos.master.core.state import Master


class RegistryError(Exception):
    """The registry cannot be read or written."""


def recover(cluster: Master, registry: bytes, now: float) -> None:
    """Expect the agents of the earlier master back.

    Raise RegistryError when these bytes, if there are any, are no registry.
    """
    if not registry:
        return
    try:
        content = json.loads(registry)
        infos = [mesos.AgentInfo.FromString(base64.b64decode(item)) for item in content["agents"]]
        cluster.unreachable.update(content["unreachable"])
        cluster.gone.update(content["gone"])
        down = [(str(host), str(ip)) for host, ip in content["down"]]
        restore(cluster, base64.b64decode(content["schedule"]), down)
        for role, quota in content.get("quotas", {}).items():  # registries of before have none
            cluster.quotas[str(role)] = base64.b64decode(quota)
    except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as error:
        raise RegistryError(f"no registry: {error!r}") from error
    expect_recovered(cluster, infos, now)


def snapshot(cluster: Master) -> bytes:
    """Return what ``recover`` reads; simulated agents are not in it, they end with their master."""
    infos = [item.info for item in cluster.agents.values() if not item.simulated]
    infos += cluster.recovered.values()
    content = {
        "agents": [base64.b64encode(info.SerializeToString()).decode("ascii") for info in infos],
        "unreachable": cluster.unreachable,
        "gone": cluster.gone,
        "quotas": {role: base64.b64encode(quota).decode("ascii") for role, quota in cluster.quotas.items()},
        "schedule": base64.b64encode(cluster.schedule).decode("ascii"),
        "down": [key for key, machine in cluster.machines.items() if machine.down],
    }
    return json.dumps(content).encode()


class FileRegistry:
    """The registry of a master that is alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """Return what was written last, nothing where nothing was.

        Raise RegistryError when the file is there and cannot be read.
        """
        try:
            return self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise RegistryError(str(error)) from error

    def write(self, registry: bytes) -> None:
        """Replace the file as a whole."""
        temporary = self.path.with_suffix(".new")
        temporary.write_bytes(registry)
        temporary.replace(self.path)

"""The registry: which agents were admitted, kept across restarts of the master.

A real master keeps it in a replicated log; here it is one JSON file in the work directory.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from google.protobuf.message import DecodeError

from mesos.v1 import mesos_pb2 as mesos
from peloton.minicluster.mesos.master.core.agents import expect_recovered
from peloton.minicluster.mesos.master.core.maintenance import restore
from peloton.minicluster.mesos.master.core.state import Cluster


class RegistryError(Exception):
    """The registry file cannot be read or written."""


class Registry:
    """One registry file; ``path`` None keeps nothing (--registry=in_memory)."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self, cluster: Cluster, now: float) -> None:
        """Expect the agents of the earlier master back.

        Raises RegistryError when the file is there and cannot be read.
        """
        if self._path is None or not self._path.exists():
            return
        try:
            content = json.loads(self._path.read_text())
            infos = [mesos.AgentInfo.FromString(base64.b64decode(item)) for item in content["agents"]]
            cluster.unreachable.update(content["unreachable"])
            cluster.gone.update(content["gone"])
            down = [(str(host), str(ip)) for host, ip in content["down"]]
            restore(cluster, base64.b64decode(content["schedule"]), down)
        except (OSError, ValueError, KeyError, TypeError, DecodeError) as error:
            raise RegistryError(f"cannot read the registry {self._path}: {error}") from error
        expect_recovered(cluster, infos, now)

    def save_if_changed(self, cluster: Cluster) -> None:
        """Write the file when agents came or went; it is replaced as a whole."""
        if not cluster.registry_changed:
            return
        cluster.registry_changed = False
        if self._path is None:
            return
        infos = [item.info for item in cluster.agents.values() if not item.simulated]
        infos += cluster.recovered.values()
        content = {
            "agents": [base64.b64encode(info.SerializeToString()).decode("ascii") for info in infos],
            "unreachable": cluster.unreachable,
            "gone": cluster.gone,
            "schedule": base64.b64encode(cluster.schedule).decode("ascii"),
            "down": [key for key, machine in cluster.machines.items() if machine.down],
        }
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(content))
        temporary.replace(self._path)

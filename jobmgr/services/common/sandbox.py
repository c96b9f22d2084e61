"""Finds the files of a run on its agent's HTTP server (docs/behaviour/operation.md, Logs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobmgr.ports.hostmgr import AgentAddress, Agents
from jobmgr.services.common.agent_http import AgentHttp
from jobmgr.services.common.agent_listings import directories, file_data, files
from peloton.errors import NotFound, Refused, shown
from peloton.model.cluster import cluster_of, mesos_hostname
from peloton.model.ids import MesosTaskId

BYTES_PER_READ = 64 * 1024
"""As many as an agent gives at once."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The address of an agent, the paths of files for its `/files/download`, and the leading master."""

    host: str
    port: str
    paths: tuple[str, ...]
    master_host: str
    master_port: str


class Sandboxes:
    """Finds sandboxes, by hostmgr and the agents."""

    def __init__(self, hostmgr: Callable[[str], Agents], http: AgentHttp | None = None) -> None:
        """Get the agents of a Mesos cluster by `hostmgr`, which receives the cluster's name."""
        self._hostmgr = hostmgr
        self._http = http or AgentHttp()

    async def find(self, run: MesosTaskId, hostname: str, agent_id: str) -> Sandbox:
        """Find the sandbox of a run. Raises NotFound where it is gone, Unavailable where that is unknown."""
        hostmgr = self._hostmgr(cluster_of(hostname))
        agent = await self._agent(hostmgr, hostname, agent_id)
        master_host, master_port = await hostmgr.master()
        host, port = address_of(agent)
        address = f"{host}:{port}"
        paths = files(await self._browse(address, run, agent_id), address)
        return Sandbox(host, port, paths, master_host, master_port)

    async def read(self, run: MesosTaskId, hostname: str, agent_id: str, name: str, offset: int) -> bytes:
        """Return bytes of a file from `offset` on, at most 64 KiB; none at its end.

        Raises NotFound where there is no such file, Refused where it cannot be shown, and Unavailable.
        """
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise NotFound(f"{shown(name)} is no path inside of the sandbox")
        agent = await self._agent(self._hostmgr(cluster_of(hostname)), hostname, agent_id)
        address = ":".join(address_of(agent))
        state = await self._http.get(address, "/state")
        query = {"offset": str(offset), "length": str(BYTES_PER_READ)}
        for directory in directories(state, run, agent_id, address):
            try:
                path = "/".join((directory, *parts))
                return file_data(
                    await self._http.read(address, "/files/read", {**query, "path": path}), address
                )
            except NotFound:
                continue
        raise NotFound(f"agent {address} has no file {shown(name)} of {run}")

    async def _agent(self, hostmgr: Agents, hostname: str, agent_id: str) -> AgentAddress:
        for agent in await hostmgr.agents(hostname):
            if agent.id == agent_id:
                return agent
        raise NotFound(f"agent {agent_id} of host {hostname} is gone, and the sandbox with it")

    async def _browse(self, address: str, run: MesosTaskId, agent_id: str) -> object:
        """Return the agent's listing of the run's directory."""
        state = await self._http.get(address, "/state")
        for directory in directories(state, run, agent_id, address):
            try:
                return await self._http.get(address, "/files/browse", {"path": directory})
            except NotFound:
                continue
        raise NotFound(f"agent {address} has no sandbox of {run} (any more)")


def address_of(agent: AgentAddress) -> tuple[str, str]:
    """Return host and port of an agent's HTTP server.

    The pid, such as `slave(1)@10.0.0.7:5051`, has its address. The hostname may not resolve. Raises Refused
    for a node of Kubernetes, which serves no files.
    """
    if not agent.pid and not agent.port:
        raise Refused(
            f"host {agent.hostname} is a node of Kubernetes, and logs of its tasks are not served: hostmgr's "
            "setting kubernetes.sandboxes.port is 0; `kubectl logs` with the id of the run shows the log"
        )
    host, colon, port = agent.pid.rpartition("@")[2].rpartition(":")
    if colon and host and port.isdigit():
        return host, port
    return mesos_hostname(agent.hostname), str(agent.port)

"""Finds the files of a run on its agent's HTTP server (docs/behaviour/operation.md, Logs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobmgr.services.common.agent_http import AgentHttp
from peloton.errors import NotFound, Unavailable
from peloton.model.cluster import cluster_of, mesos_hostname
from peloton.model.ids import CUSTOM_EXECUTOR_PREFIX, MesosTaskId
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.rpc.client import Caller
from peloton.wire.hosts import Agent

HOSTMGR_TIMEOUT = 5.0
MAX_FRAMEWORKS = 10
"""Frameworks whose paths are tried for an executor that the agent no longer lists."""


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

    def __init__(self, hostmgr: Callable[[str], Caller], http: AgentHttp | None = None) -> None:
        """Call the host manager of a Mesos cluster by `hostmgr`, which receives the cluster's name."""
        self._hostmgr = hostmgr
        self._http = http or AgentHttp()

    async def find(self, run: MesosTaskId, hostname: str, agent_id: str) -> Sandbox:
        """Find the sandbox of a run. Raises NotFound where it is gone, Unavailable where that is unknown."""
        hostmgr = self._hostmgr(cluster_of(hostname))
        agent = await self._agent(hostmgr, hostname, agent_id)
        master = await hostmgr.call(
            "GetMesosMasterHostPort", hostsvc_pb2.MesosMasterHostPortRequest(), timeout=HOSTMGR_TIMEOUT
        )
        host, port = address_of(agent)
        address = f"{host}:{port}"
        paths = files(await self._browse(address, run, agent_id), address)
        return Sandbox(host, port, paths, master.hostname, master.port)

    async def _agent(self, hostmgr: Caller, hostname: str, agent_id: str) -> Agent:
        request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=hostname)
        answer = await hostmgr.call("GetMesosAgentInfo", request, timeout=HOSTMGR_TIMEOUT)
        if answer.HasField("error"):
            raise NotFound(f"host {hostname}: {answer.error.hostNotFound.message or 'unknown to Mesos'}")
        for agent in answer.agents:
            if agent.agent_info.id.value == agent_id:
                found: Agent = agent
                return found
        raise NotFound(f"agent {agent_id} of host {hostname} is gone, and the sandbox with it")

    async def _browse(self, address: str, run: MesosTaskId, agent_id: str) -> Any:
        """Return the agent's listing of the run's directory."""
        state = await self._http.get(address, "/state")
        for directory in directories(state, run, agent_id, address):
            try:
                return await self._http.get(address, "/files/browse", {"path": directory})
            except NotFound:
                continue
        raise NotFound(f"agent {address} has no sandbox of {run} (any more)")


def address_of(agent: Agent) -> tuple[str, str]:
    """Return host and port of an agent's HTTP server.

    The pid, such as `slave(1)@10.0.0.7:5051`, has its address. The hostname may not resolve.
    """
    host, colon, port = agent.pid.rpartition("@")[2].rpartition(":")
    if colon and host and port.isdigit():
        return host, port
    return mesos_hostname(agent.agent_info.hostname), str(agent.agent_info.port)


def directories(state: Any, run: MesosTaskId, agent_id: str, address: str) -> list[str]:
    """Return the directories where the files of a run may be, the most likely first.

    That is the one in the agent's `/state`. An agent forgets old executors before it removes their files, so
    that they may also be below each of its frameworks, by the virtual path or the real one. Raises
    Unavailable where the state has an unknown form.
    """
    executors = (run, CUSTOM_EXECUTOR_PREFIX + run)
    try:
        frameworks = _held(state, "frameworks")
        listed = [
            executor["directory"]
            for framework in frameworks
            for executor in _held(framework, "executors")
            if executor["id"] in executors
        ]
        ids = [framework["id"] for framework in frameworks[:MAX_FRAMEWORKS]]
        work = state.get("flags", {}).get("work_dir", "")
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"agent {address} has a state of unknown form: {error!r}") from None
    roots = ["", f"{work}/slaves/{agent_id}"] if work else [""]
    return listed + [
        f"{root}/frameworks/{framework}/executors/{executor}/runs/latest"
        for root in roots
        for framework in ids
        for executor in executors
    ]


def files(listing: Any, address: str) -> tuple[str, ...]:
    """Return the paths of files. Raises Unavailable where the listing has an unknown form."""
    try:
        return tuple(str(entry["path"]) for entry in listing if not entry["mode"].startswith("d"))
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"agent {address} has a listing of unknown form: {error!r}") from None


def _held(parent: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return the active ones, then those that have ended."""
    return [*parent.get(kind, ()), *parent.get(f"completed_{kind}", ())]

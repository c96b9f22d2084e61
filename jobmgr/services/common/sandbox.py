"""Where the files of a run are: its agent's HTTP server, and the paths there (behaviour 9, Logs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobmgr.services.common.agent_http import AgentHttp
from peloton.errors import NotFound, Unavailable
from peloton.model.ids import CUSTOM_EXECUTOR_PREFIX, MesosTaskId
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.rpc.client import Caller
from peloton.wire.hosts import Agent

HOSTMGR_TIMEOUT = 5.0
MOST_FRAMEWORKS = 10
"""Frameworks of one agent whose virtual paths are tried for an executor that the agent no longer lists."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Paths as the agent's `/files/download` takes them."""

    host: str
    port: str
    paths: tuple[str, ...]
    master_host: str
    master_port: str


class Sandboxes:
    def __init__(self, hostmgr: Caller, http: AgentHttp | None = None) -> None:
        self._hostmgr = hostmgr
        self._http = http or AgentHttp()

    async def find(self, run: MesosTaskId, hostname: str, agent_id: str) -> Sandbox:
        """Raises NotFound where the agent or the sandbox is gone, Unavailable where nobody can tell."""
        agent = await self._agent(hostname, agent_id)
        master = await self._hostmgr.call(
            "GetMesosMasterHostPort", hostsvc_pb2.MesosMasterHostPortRequest(), timeout=HOSTMGR_TIMEOUT
        )
        host, port = address_of(agent)
        address = f"{host}:{port}"
        paths = files(await self._browse(address, run, agent_id), address)
        return Sandbox(host, port, paths, master.hostname, master.port)

    async def _agent(self, hostname: str, agent_id: str) -> Agent:
        request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=hostname)
        answer = await self._hostmgr.call("GetMesosAgentInfo", request, timeout=HOSTMGR_TIMEOUT)
        if answer.HasField("error"):
            raise NotFound(f"host {hostname}: {answer.error.hostNotFound.message or 'not known to Mesos'}")
        for agent in answer.agents:
            if agent.agent_info.id.value == agent_id:
                found: Agent = agent
                return found
        raise NotFound(f"agent {agent_id} of host {hostname} is gone, and the sandbox with it")

    async def _browse(self, address: str, run: MesosTaskId, agent_id: str) -> Any:
        """What the agent lists of the run's directory."""
        state = await self._http.get(address, "/state")
        for directory in directories(state, run, agent_id, address):
            try:
                return await self._http.get(address, "/files/browse", {"path": directory})
            except NotFound:
                continue
        raise NotFound(f"agent {address} has no sandbox of {run} (any more)")


def address_of(agent: Agent) -> tuple[str, str]:
    """Host and port of the agent's HTTP server. The pid, `slave(1)@10.0.0.7:5051`, tells where it listens;
    the hostname is a name, which need not resolve here."""
    host, colon, port = agent.pid.rpartition("@")[2].rpartition(":")
    if colon and host and port.isdigit():
        return host, port
    return agent.agent_info.hostname, str(agent.agent_info.port)


def directories(state: Any, run: MesosTaskId, agent_id: str, address: str) -> list[str]:
    """Where a run's files may be, the surest first: as the agent's `/state` tells; else, since an agent
    forgets old executors before it removes their files, below each of its frameworks, by the virtual path
    and by the real one.

    Raises Unavailable where the state is in no form that is known."""
    wanted = (run, CUSTOM_EXECUTOR_PREFIX + run)
    try:
        frameworks = _held(state, "frameworks")
        told = [
            executor["directory"]
            for framework in frameworks
            for executor in _held(framework, "executors")
            if executor["id"] in wanted
        ]
        ids = [framework["id"] for framework in frameworks[:MOST_FRAMEWORKS]]
        work = state.get("flags", {}).get("work_dir", "")
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"agent {address} tells its state in an unknown form: {error!r}") from None
    roots = ["", f"{work}/slaves/{agent_id}"] if work else [""]
    return told + [
        f"{root}/frameworks/{framework}/executors/{executor}/runs/latest"
        for root in roots
        for framework in ids
        for executor in wanted
    ]


def files(listing: Any, address: str) -> tuple[str, ...]:
    """Paths of what is no directory. Raises Unavailable where the listing is in no form that is known."""
    try:
        return tuple(str(entry["path"]) for entry in listing if not entry["mode"].startswith("d"))
    except (AttributeError, KeyError, TypeError) as error:
        raise Unavailable(f"agent {address} lists files in an unknown form: {error!r}") from None


def _held(parent: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Present ones, then those that have ended."""
    return [*parent.get(kind, ()), *parent.get(f"completed_{kind}", ())]

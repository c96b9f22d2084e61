"""What the runs of an agent use, read from its HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

from hostmgr.core.state.columns import Agent
from mesos.v1.master import master_pb2
from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import Unavailable
from peloton.mesos.agent_usage import ContainerUsage, containers_path, usages
from peloton.mesos.detector import MasterAddress
from peloton.mesos.http import READ_BYTES, BrokenHttp, HttpResponse, ResponseParser, connect
from peloton.model.cluster import mesos_hostname
from peloton.model.ids import MesosTaskId
from peloton.plainjson import parse_json

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 16 * 1024 * 1024


class AgentStatistics:
    """Ask agents, each on a connection of its own."""

    def __init__(self, access: AgentAccess = PLAIN, timeout: float = TIMEOUT_SECONDS) -> None:
        self._access = access
        self._timeout = timeout

    async def read(self, agent: Agent) -> Mapping[MesosTaskId, ContainerUsage]:
        """Return what each run uses. Raises Unavailable."""
        wire = cast(master_pb2.Response.GetAgents.Agent, agent.wire)
        host, port = _address(agent, wire)
        address, path = f"{host}:{port}", containers_path(wire.pid)
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._get(MasterAddress(host, port), address, path)
        except (OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"agent {address} does not tell what its tasks use: {reason}") from None
        if answer.status != 200:
            raise Unavailable(f"agent {address} answered {answer.status} for {path}")
        try:
            listing = parse_json(b"".join(answer.body))
        except ValueError:
            raise Unavailable(f"agent {address} answered something that is not JSON") from None
        return usages(listing, address)

    async def _get(self, server: MasterAddress, address: str, path: str) -> HttpResponse:
        reader, writer = await connect(server, self._timeout, self._access.tls and self._access.tls())
        try:
            lines = [f"GET {path} HTTP/1.1", f"Host: {address}", "Accept: application/json"]
            lines += [f"{name}: {value}" for name, value in self._access.headers.items()]
            writer.write(("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode("ascii"))
            parser = ResponseParser(MAX_BYTES)
            while data := await reader.read(READ_BYTES):
                if done := parser.feed(data):
                    return done[0]
            raise BrokenHttp("the answer was cut short")
        finally:
            writer.close()


def _address(agent: Agent, wire: master_pb2.Response.GetAgents.Agent) -> tuple[str, int]:
    """Return host and port of the agent's server: those in its pid, such as `slave(1)@10.0.0.7:5051`."""
    host, _, port = wire.pid.rpartition("@")[2].rpartition(":")
    if host and port.isdecimal():
        return host, int(port)
    return mesos_hostname(agent.hostname), wire.agent_info.port

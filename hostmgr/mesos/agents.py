"""The master's map of agents and the role's quota, read through the operator API."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from hostmgr.backend.interface import AgentMap
from hostmgr.core.state.columns import Agent
from hostmgr.mesos.host_names import HostNames
from hostmgr.mesos.translate import KIND_OF, AgentTranslator
from peloton.mesos.operator import Agent as AgentMessage
from peloton.mesos.operator import OperatorClient
from peloton.model.resources import milli

AGENTS_AT_ONCE = 200
"""Agents that are translated before other work runs."""


class AgentReader:
    """Read the agents; only those that have changed are translated."""

    def __init__(self, client: OperatorClient, role: str, hosts: HostNames | None = None) -> None:
        """Count only resources allocated to `role` as allocated. `hosts` names the agents' hosts."""
        self._client = client
        self._role = role
        self._translator = AgentTranslator(role)
        self._hosts = hosts or HostNames("")
        self._read: dict[str, tuple[bytes, Agent]] = {}

    async def agents(self) -> AgentMap:
        """Return the active agents. Raises Unavailable, InvalidArgument for an amount that is no number."""
        answer = await self._client.agents()
        for each in answer.agents:
            self._hosts.name(each.agent_info)
        self._read = await self._translated([each for each in answer.agents if each.active])
        return AgentMap(
            [agent for _, agent in self._read.values()],
            complete=not answer.recovered_agents,
            disconnected=frozenset(each.agent_info.hostname for each in answer.agents if not each.active),
        )

    async def quota(self) -> Mapping[str, int]:
        """Return the role's limits. Raises Unavailable, InvalidArgument for an amount that is no number."""
        return {
            KIND_OF[name]: milli(limit.value)
            for quota in await self._client.quotas()
            if quota.role == self._role
            for name, limit in quota.limits.items()
            if name in KIND_OF
        }

    async def _translated(self, agents: Sequence[AgentMessage]) -> dict[str, tuple[bytes, Agent]]:
        read = {}
        for number, wire in enumerate(agents):
            if number % AGENTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            agent_id, raw = wire.agent_info.id.value, wire.SerializeToString()
            before = self._read.get(agent_id)
            agent = before[1] if before and before[0] == raw else self._translator.agent(wire)
            read[agent_id] = (raw, agent)
        return read

"""The master's map of agents and the role's quota, looked at every few seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.hosts import Hosts
from hostmgr.core.reconcile import Reconciler
from hostmgr.core.table import Agent
from hostmgr.mesos.operator import Agent as Wire
from hostmgr.mesos.operator import OperatorClient
from hostmgr.mesos.translate import KIND_OF, agent_from
from mesos.v1.quota import quota_pb2
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.resources import milli

AGENTS = Gauge("hostmgr_agents", "Agents in the master's map.")
RETRY_SECONDS = 1.0
AGENTS_AT_ONCE = 200
"""Agents that are read before other work gets its turn."""
log = logging.getLogger(__name__)


class Cluster:
    """`agents` and `quota` as last seen; `known` once they were."""

    def __init__(
        self,
        client: OperatorClient,
        hosts: Hosts,
        reconciler: Reconciler,
        role: str,
        interval: float,
        now: Callable[[], float],
    ) -> None:
        self.agents: Mapping[str, Wire] = {}
        """By agent id."""
        self.quota: Mapping[str, int] = {}
        """Thousandths by kind (cpu, memory, …) where the role has a limit."""
        self.known = False
        self._trouble = ""
        self._read: dict[str, tuple[Wire, bytes, Agent]] = {}
        self._client = client
        self._hosts = hosts
        self._reconciler = reconciler
        self._role = role
        self._interval = interval
        self._now = now

    @property
    def unhealthy(self) -> str:
        if self.known:
            return ""
        why = f": {self._trouble}" if self._trouble else ""
        return f"the master's map of agents has not been read yet{why}"

    async def follow(self) -> NoReturn:
        while True:
            try:
                await self.look()
                pause = self._interval
            except (Unavailable, InvalidArgument) as error:
                log.warning("the map of agents stays as it was: %s", error)
                self._trouble = str(error)
                pause = min(RETRY_SECONDS, self._interval)
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Raises Unavailable, and InvalidArgument for an amount that is no number, having changed nothing."""
        settled = self._settled()
        told = await self._client.agents()
        quotas = await self._client.quotas()
        self._read = await self._translated([each for each in told.agents if each.active])
        self.agents = {agent_id: wire for agent_id, (wire, _, _) in self._read.items()}
        for agent_id in self.agents:
            self._reconciler.agent_seen(agent_id)
        # A new master may have answered, of which the driver has yet to hear.
        complete = settled and self._settled() and not told.recovered_agents
        self._hosts.set_agents([agent for _, _, agent in self._read.values()], complete=complete)
        self.quota = _limits(quotas, self._role)
        self.known = True
        AGENTS.set(len(self.agents))

    def _settled(self) -> bool:
        return self._reconciler.settled(self._now())

    async def _translated(self, agents: Sequence[Wire]) -> dict[str, tuple[Wire, bytes, Agent]]:
        """By agent id; what has not changed since the last time is not read anew."""
        read = {}
        for number, wire in enumerate(agents):
            if number % AGENTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            agent_id, raw = wire.agent_info.id.value, wire.SerializeToString()
            before = self._read.get(agent_id)
            agent = before[2] if before and before[1] == raw else agent_from(wire, self._role)
            read[agent_id] = (wire, raw, agent)
        return read


def _limits(quotas: Sequence[quota_pb2.QuotaConfig], role: str) -> dict[str, int]:
    return {
        KIND_OF[name]: milli(limit.value)
        for quota in quotas
        if quota.role == role
        for name, limit in quota.limits.items()
        if name in KIND_OF
    }

"""The master's map of agents and the role's quota, looked at every few seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.hosts import Hosts
from hostmgr.core.reconcile import Reconciler
from hostmgr.mesos.operator import Agent, OperatorClient
from hostmgr.translate import KIND_OF, agent_from
from mesos.v1.quota import quota_pb2
from peloton.errors import Unavailable
from peloton.model.resources import milli

AGENTS = Gauge("hostmgr_agents", "Agents in the master's map.")
RETRY_SECONDS = 1.0
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
        self.agents: Mapping[str, Agent] = {}
        """By agent id."""
        self.quota: Mapping[str, int] = {}
        """Thousandths by kind (cpu, memory, …) where the role has a limit."""
        self.known = False
        self._client = client
        self._hosts = hosts
        self._reconciler = reconciler
        self._role = role
        self._interval = interval
        self._now = now

    @property
    def unhealthy(self) -> str:
        return "" if self.known else "the master's map of agents has not been read yet"

    async def follow(self) -> NoReturn:
        while True:
            try:
                await self.look()
                pause = self._interval
            except Unavailable as error:
                log.warning("the map of agents stays as it was: %s", error)
                pause = min(RETRY_SECONDS, self._interval)
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Raises Unavailable, having changed nothing."""
        agents = await self._client.agents()
        quotas = await self._client.quotas()
        self.agents = {each.agent_info.id.value: each for each in agents if each.active}
        for agent_id in self.agents:
            self._reconciler.agent_seen(agent_id)
        complete = self._now() >= self._reconciler.settled_at
        self._hosts.set_agents(
            [agent_from(each, self._role) for each in self.agents.values()], complete=complete
        )
        self.quota = _limits(quotas, self._role)
        self.known = True
        AGENTS.set(len(self.agents))


def _limits(quotas: Sequence[quota_pb2.QuotaConfig], role: str) -> dict[str, int]:
    return {
        KIND_OF[name]: milli(limit.value)
        for quota in quotas
        if quota.role == role
        for name, limit in quota.limits.items()
        if name in KIND_OF
    }

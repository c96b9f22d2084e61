"""The map of agents and the quota of the own role, read periodically."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.backend.interface import Backend
from hostmgr.core.agents.reading import AgentReading
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.cluster_manager.reconciliation import Reconciler
from hostmgr.core.hosts.all_hosts import Hosts
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.resources import KINDS, MILLI, ZERO
from peloton.waking import until_tick

AGENTS = Gauge("hostmgr_agents", "Agents in the master's map of agents.")
CAPACITY = Gauge("hostmgr_capacity", "Resources of the agents, in units of the kind.", ["kind"])
ALLOCATION = Gauge("hostmgr_allocation", "Resources of the agents that tasks have.", ["kind"])
log = logging.getLogger(__name__)


class FollowedAgents:
    """Read the agents and the quota of the own role."""

    def __init__(
        self,
        backend: Backend,
        hosts: Hosts,
        reconciler: Reconciler,
        interval: float,
        now: Callable[[], float],
    ) -> None:
        """Read every `interval` seconds."""
        self.sight = ClusterSight(hosts, reconciler)
        self._reading = AgentReading(self.sight, hosts, interval)
        self._lock = asyncio.Lock()
        self._backend = backend
        self._now = now

    async def follow(self) -> NoReturn:
        """Read periodically."""
        while True:
            pause = await self.try_to_read()
            began = self._now()
            while True:
                rest = self._reading.rest(self._now() - began, pause)
                if not rest:
                    break
                await asyncio.sleep(min(rest, until_tick(1.0)))

    async def try_to_read(self) -> float:
        """Read; return the seconds until the next read."""
        try:
            await self.read()
        except (Unavailable, InvalidArgument) as error:
            log.warning("the map of agents stays as it was: %s", error)
            self.sight.failed(str(error))
            return self._reading.failed()
        return self._reading.succeeded()

    async def read(self) -> None:
        """Read agents and quota.

        Raises Unavailable, and InvalidArgument for an amount that is no number; both without any change.
        """
        async with self._lock:  # an answer that is late would undo a newer one
            began = self._now()
            was_settled = self.sight.is_settled(began)
            found = await self._backend.agents()
            quota = await self._backend.quota()
            self.sight.take(found.agents, found.complete, found.disconnected, began, was_settled, self._now())
            self.sight.quota = quota
            self._measure()

    def _measure(self) -> None:
        agents = self.sight.agents
        AGENTS.set(len(agents))
        total = sum((agent.total for agent in agents.values()), ZERO)
        allocated = sum((agent.allocated for agent in agents.values()), ZERO)
        for kind, capacity, allocation in zip(KINDS, total.values(), allocated.values(), strict=True):
            CAPACITY.labels(kind).set(capacity / MILLI)
            ALLOCATION.labels(kind).set(allocation / MILLI)

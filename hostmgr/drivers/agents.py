"""The map of agents and the quota of the own role, read periodically."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.backend.interface import Backend
from hostmgr.core.columns import Agent
from hostmgr.core.hosts import Hosts
from hostmgr.core.reconcile import Reconciler
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.backoff import exponential
from peloton.model.resources import KINDS, MILLI, ZERO

AGENTS = Gauge("hostmgr_agents", "Agents in the master's map of agents.")
CAPACITY = Gauge("hostmgr_capacity", "Resources of the agents, in units of the kind.", ["kind"])
ALLOCATION = Gauge("hostmgr_allocation", "Resources of the agents that tasks have.", ["kind"])
RETRY_SECONDS = 1.0
SECONDS_PER_AGENT = 0.001
"""Least time between two reads, by agent: each read costs the master and this process CPU for every agent."""
log = logging.getLogger(__name__)


class Cluster:
    """The agents and the quota as last read; `known` once they have been read."""

    def __init__(
        self,
        backend: Backend,
        hosts: Hosts,
        reconciler: Reconciler,
        interval: float,
        now: Callable[[], float],
    ) -> None:
        """Read every `interval` seconds."""
        self.agents: Mapping[str, Agent] = {}
        """Agents by id."""
        self.quota: Mapping[str, int] = {}
        """Thousandths by kind (cpu, memory, …) where the role has a limit."""
        self.known = False
        self.complete = False
        """Whether the last read listed all agents: none was still to register with a new master."""
        self.disconnected: frozenset[str] = frozenset()
        """Hostnames of agents that are registered and not connected."""
        self.read_began = -math.inf
        """When the last read began, on the monotonic clock."""
        self.version = 0
        """Grows whenever `complete` or `disconnected` changes."""
        self._last_error = ""
        self._failures = 0
        self._backend = backend
        self._hosts = hosts
        self._reconciler = reconciler
        self._interval = interval
        self._now = now

    @property
    def unhealthy(self) -> str:
        """Return why the cluster is not known; empty once it is."""
        if self.known:
            return ""
        reason = f": {self._last_error}" if self._last_error else ""
        return f"the master's map of agents has not been read yet{reason}"

    async def follow(self) -> NoReturn:
        """Read periodically."""
        while True:
            pause = await self.try_to_read()
            await self._rest(pause)

    async def try_to_read(self) -> float:
        """Read; return the seconds until the next read. After failures they grow up to the interval.

        A map of many agents is work for the master: one that does not keep up is not asked without a pause,
        and a large map is read less often.
        """
        try:
            await self.read()
        except (Unavailable, InvalidArgument) as error:
            log.warning("the map of agents stays as it was: %s", error)
            self._last_error = str(error)
            self._failures += 1
            return exponential(self._failures, min(RETRY_SECONDS, self._interval), self._interval)
        self._failures = 0
        return max(self._interval, self._shortest)

    @property
    def _shortest(self) -> float:
        """Seconds between two reads at least."""
        return max(RETRY_SECONDS, len(self.agents) * SECONDS_PER_AGENT)

    async def _rest(self, seconds: float) -> None:
        """Sleep, less long where an offer comes from an agent that the map lacks."""
        began = self._now()
        while (rested := self._now() - began) < seconds:
            if self._hosts.unlisted and rested >= self._shortest:
                return
            await asyncio.sleep(min(RETRY_SECONDS, seconds - rested))

    async def read(self) -> None:
        """Read agents and quota.

        Raises Unavailable, and InvalidArgument for an amount that is no number; both without any change.
        """
        settled, began = self._settled(), self._now()
        agent_map = await self._backend.agents()
        quota = await self._backend.quota()
        self.agents = {agent.id: agent for agent in agent_map.agents}
        for agent_id in self.agents:
            self._reconciler.agent_seen(agent_id)
        # The answer may be from a new master that the backend has not reported yet.
        complete = settled and self._settled() and agent_map.complete
        self._hosts.set_agents(agent_map.agents, complete=complete)
        self.quota = quota
        self.known, self.read_began = True, began
        seen = (agent_map.complete, agent_map.disconnected)
        if seen != (self.complete, self.disconnected):
            self.complete, self.disconnected = seen
            self.version += 1
        self._measure()

    def _measure(self) -> None:
        AGENTS.set(len(self.agents))
        total = sum((agent.total for agent in self.agents.values()), ZERO)
        allocated = sum((agent.allocated for agent in self.agents.values()), ZERO)
        for kind, capacity, allocation in zip(KINDS, total.values(), allocated.values(), strict=True):
            CAPACITY.labels(kind).set(capacity / MILLI)
            ALLOCATION.labels(kind).set(allocation / MILLI)

    def _settled(self) -> bool:
        return self._reconciler.settled(self._now())

"""What the master shows of the cluster, as it was last read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hostmgr.core.cluster_manager.reconciliation import Reconciler
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.columns import Agent


class ClusterSight:
    """The agents and the quota, `known` once they have been read. The hosts follow what is listed here."""

    def __init__(self, hosts: Hosts, reconciler: Reconciler) -> None:
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
        self._hosts = hosts
        self._reconciler = reconciler
        self._last_error = ""

    @property
    def unhealthy(self) -> str:
        """Return why the agents are not known; empty once they are."""
        if self.known:
            return ""
        reason = f": {self._last_error}" if self._last_error else ""
        return f"the master's map of agents has not been read yet{reason}"

    @property
    def gone(self) -> frozenset[str]:
        """Return the ids of agents that the master has given up since they were last seen."""
        return self._reconciler.gone()

    @property
    def hostnames(self) -> set[str]:
        """Return the names of hosts with a registered agent."""
        return {agent.hostname for agent in self.agents.values()}

    def is_settled(self, now: float) -> bool:
        """Return whether no agent is still to register with a new master, as far as is known."""
        return self._reconciler.settled(now)

    def settled(self, now: float) -> bool:
        """Return whether all agents are known: the last read listed them all, and no other is to come."""
        return self.complete and self.is_settled(now)

    def take(
        self,
        agents: Sequence[Agent],
        complete: bool,
        disconnected: frozenset[str],
        began: float,
        was_settled: bool,
        now: float,
    ) -> None:
        """Take over a map of agents whose read has `began`.

        `complete`: the master waits for no agent to register again. The answer may be from a new master that
        has not been reported yet: agents that it does not list are gone only where all were known before the
        read, `was_settled`, and are after it.
        """
        assert began >= self.read_began, "an answer that is late would undo a newer one"
        for agent in agents:
            self._reconciler.agent_seen(agent.id)
        self._hosts.set_agents(agents, complete=was_settled and complete and self.is_settled(now))
        self.agents = {agent.id: agent for agent in agents}
        self.known, self.read_began = True, began
        if (complete, disconnected) != (self.complete, self.disconnected):
            self.complete, self.disconnected = complete, disconnected
            self.version += 1

    def failed(self, reason: str) -> None:
        """Note why a read has failed: what is known stays."""
        self._last_error = reason

"""The agents that the master lists, and what they have in all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostmgr.core.state.capacity import Capacity, sum_of
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_pools import HostPools


class ListedAgents:
    """The map of agents as last read. Its capacity is the sum over the agents in it."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}
        self.capacity = sum_of(())
        """Sums over all agents."""

    def __contains__(self, agent_id: object) -> bool:
        return agent_id in self._agents

    def get(self, agent_id: str) -> Agent | None:
        """Return an agent that is listed."""
        return self._agents.get(agent_id)

    def replace(self, listed: Mapping[str, Agent], complete: bool) -> None:
        """Take over what the master lists; agents that it does not list stay unless it is `complete`."""
        self._agents = dict(listed) if complete else {**self._agents, **listed}
        self.capacity = sum_of(self._agents.values())

    def remove(self, agent_id: str) -> None:
        """Remove a lost agent, if it is listed."""
        if self._agents.pop(agent_id, None) is not None:
            self.capacity = sum_of(self._agents.values())

    def lacks(self, agent_ids: Iterable[str]) -> bool:
        """Return whether one of these agents is not listed."""
        return any(agent_id not in self._agents for agent_id in agent_ids)

    def has_volume(self, volume_id: str) -> bool:
        """Return whether an agent has a persistent volume."""
        return any(volume_id in agent.volumes for agent in self._agents.values())

    def capacities(self, pools: HostPools) -> Mapping[str, tuple[int, Capacity]]:
        """Return for each host pool the number of its agents, and the sums over them."""
        agents: dict[str, list[Agent]] = {name: [] for name in pools.names()}
        for agent in self._agents.values():
            agents[pools.pool_of(agent.hostname)].append(agent)
        return {name: (len(each), sum_of(each)) for name, each in agents.items()}

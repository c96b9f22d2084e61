"""What a master shows of a cluster, to try the core on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from hostmgr.core.agents.maintained_hosts import MaintainedHosts
from hostmgr.core.agents.maintenance_records import Records
from hostmgr.core.cluster_manager.events import Address, Registration
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term

REGISTRATION = Registration("f1", Address("master", 5050), "m1")


@dataclass
class Shown:
    """The agents as they were read last."""

    agents: Mapping[str, Agent] = field(default_factory=dict)
    known: bool = True
    unhealthy: str = "the agents have not been read"
    complete: bool = True
    disconnected: frozenset[str] = frozenset()
    read_began: float = 0.0
    version: int = 0
    all_known: bool = True
    gone: frozenset[str] = frozenset()

    @property
    def sight(self) -> Any:
        """Return this, for those that take what reads it."""
        return self

    @property
    def hostnames(self) -> set[str]:
        """Return the names of hosts with a registered agent."""
        return {agent.hostname for agent in self.agents.values()}

    def settled(self, now: float) -> bool:
        """Return whether all agents are known."""
        return self.all_known


class Maintained:
    """The core's parts for maintenance over hosts `host0`, `host1`, …, with a connection since 0.0."""

    def __init__(self, count: int) -> None:
        self.sight = cast(Any, Shown())
        self.term = Term(HostTable(), framework_id="f1")
        self.term.connected(REGISTRATION, 0.0)
        self.records = Records()
        self.hosts = MaintainedHosts(self.records, self.term, self.sight)
        self.register(*range(count))

    def register(self, *numbers: int) -> None:
        """Replace the map of agents."""
        agents = [Agent(f"S{n}", f"host{n}", (("rack", "r"),), ip=f"10.0.0.{n}") for n in numbers]
        self.sight.agents = {agent.id: agent for agent in agents}
        self.term.hosts.set_agents(agents)

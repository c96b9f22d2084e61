"""The capacity of all agents, or of those of a host pool."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hostmgr.core.columns import Agent
from peloton.model.resources import Resources, total


@dataclass(frozen=True, slots=True)
class Capacity:
    """Sums over all agents."""

    total: Resources
    slack_cpu: int
    allocated: Resources
    allocated_slack_cpu: int


def sum_of(agents: Collection[Agent]) -> Capacity:
    """Return the sums over agents."""
    return Capacity(
        total(agent.total for agent in agents),
        sum(agent.slack_cpu for agent in agents),
        total(agent.allocated for agent in agents),
        sum(agent.allocated_slack_cpu for agent in agents),
    )

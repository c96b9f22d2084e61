"""The capacity of all agents, or of those of a host pool."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from hostmgr.core.state.columns import Agent
from peloton.model.host_class import HostClass
from peloton.model.resources import KINDS, Resources, total

ByClass = Mapping[HostClass, tuple[Resources, int]]
"""By class of hosts: what they have, and their revocable CPU."""


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


def within_quota(classes: ByClass, quota: Mapping[str, int]) -> ByClass:
    """Return what classes have with the role's quota, by kind, in place of their sums.

    Where the hosts have more than the quota, each class counts with the same part of what it has.
    """
    whole = dict(zip(KINDS, total(amounts for amounts, _ in classes.values()).values(), strict=True))

    def cut(kind: str, amount: int) -> int:
        bound = quota.get(kind, whole[kind])
        return amount * bound // whole[kind] if whole[kind] > bound else amount

    return {
        each: (Resources(*map(cut, KINDS, amounts.values())), slack_cpu)
        for each, (amounts, slack_cpu) in classes.items()
    }

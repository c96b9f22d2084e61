"""The strategy of services: each task on the host with the most free resources, or back on its former host.

A stateful task has a desired host from when its volume was created, and is placed nowhere else.

See docs/behaviour/placement.md, Strategies.
"""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.states import PlacementStrategy, TaskType
from placement.core.model import Gang
from placement.core.policy import Desired, Policy, Scorer
from placement.core.strategy import Family, rank_of

LONGEST = 60.0
"""Seconds that a gang is tried."""


@dataclass(frozen=True, slots=True)
class Service:
    """Forms a family of all gangs that may use the same hosts.

    Gangs that return to a host form one of their own, and those of each job that is spread.
    """

    type: TaskType = TaskType.STATELESS
    longest: float = LONGEST

    def family(self, gang: Gang) -> Family:
        """Return the family of a gang."""
        classes = frozenset(needs.host_class for needs, _ in gang.shape)
        rank = rank_of(gang)
        if gang.desired_host:
            stateful = self.type is TaskType.STATEFUL
            return Family((rank, classes, "desired"), rank, to_desired_host=True, to_volume=stateful)
        if gang.strategy is PlacementStrategy.SPREAD_JOB:
            return Family((rank, classes, gang.job_id), rank, spread=True)
        return Family((rank, classes, ""), rank, even=True)

    def policy(self, family: Family) -> Policy:
        """Return the policy: the desired host, or the emptiest."""
        if family.to_desired_host:
            return Policy(desired=Desired.VOLUME if family.to_volume else Desired.HOST)
        return Policy(Scorer.EMPTIEST)

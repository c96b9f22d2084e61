"""The strategy of batch jobs: PACK fills a host before the next; SPREAD puts one task on each host.

See docs/behaviour/placement.md, Strategies.
"""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.states import PlacementStrategy, TaskType
from placement.core.model import Gang
from placement.core.policy import Policy, Scorer
from placement.core.strategy import Family, rank_of

LONGEST = 240.0
"""Seconds that a gang is tried."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Forms a family of all gangs that may use the same hosts, and one of each job that is spread."""

    type: TaskType = TaskType.BATCH
    longest: float = LONGEST

    def family(self, gang: Gang) -> Family:
        """Return the family of a gang: its rank, host classes, and its job where it is spread."""
        spread = gang.strategy is PlacementStrategy.SPREAD_JOB
        classes = frozenset(needs.host_class for needs, _ in gang.shape)
        rank = rank_of(gang)
        return Family((rank, classes, gang.job_id if spread else ""), rank, spread)

    def policy(self, family: Family) -> Policy:
        """Return the policy: the fullest host that fits, or with SPREAD the first."""
        return Policy(Scorer.FIRST_FIT if family.spread else Scorer.BEST_FIT)

"""The strategy of daemon jobs: each task on the host that it is for, and on no other.

See docs/behaviour/placement.md, Strategies.
"""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.states import TaskType
from placement.core.model import Gang
from placement.core.policy import Desired, Policy
from placement.core.strategy import Family, rank_of

LONGEST = 240.0
"""Seconds that a gang is tried."""


@dataclass(frozen=True, slots=True)
class OnePerHost:
    """Forms a family of all gangs that may use the same hosts. The desired host of a task is its host."""

    type: TaskType = TaskType.DAEMON
    longest: float = LONGEST

    def family(self, gang: Gang) -> Family:
        """Return the family of a gang."""
        classes = frozenset(needs.host_class for needs, _ in gang.shape)
        rank = rank_of(gang)
        return Family((rank, classes), rank, to_desired_host=True, nowhere_else=True)

    def policy(self, family: Family) -> Policy:
        """Return the policy: the desired host only."""
        return Policy(desired=Desired.HOST)

"""A strategy: services are packed as batch jobs are, so that idle hosts can be switched off."""

from __future__ import annotations

from dataclasses import dataclass, replace

from peloton.model.states import TaskType
from placement.config import own_strategy
from placement.core.model import Gang
from placement.core.policy import Policy, Scorer
from placement.core.strategy import Family, Strategy


def packed(type_: TaskType, longest: float) -> Strategy:
    """Return the strategy for a task type; `longest` as in the settings of the engine."""
    return Packed(own_strategy(type_, longest))


@dataclass(frozen=True, slots=True)
class Packed:
    """Peloton's own strategy, with the fullest host that fits in place of the emptiest one."""

    own: Strategy

    @property
    def type(self) -> TaskType:
        """The task type that is placed."""
        return self.own.type

    @property
    def longest(self) -> float:
        """Seconds after which a gang is given back unplaced."""
        return self.own.longest

    def family(self, gang: Gang) -> Family:
        """Return the family of a gang; it claims no host for each of its tasks."""
        return replace(self.own.family(gang), even=False)

    def policy(self, family: Family) -> Policy:
        """Return how a family is placed."""
        policy = self.own.policy(family)
        return replace(policy, scorer=Scorer.BEST_FIT) if policy.scorer is Scorer.EMPTIEST else policy

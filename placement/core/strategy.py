"""The part of placement that differs by task type: which gangs belong together and how hosts are filled."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from peloton.fast_init import fast_init
from peloton.model.states import TaskType
from placement.core.model import Gang
from placement.core.policy import Desired, HostScore, Policy, Scorer

_RESERVED, _REVOCABLE, _REST = range(3)


@dataclass(frozen=True, slots=True)
class Family:
    """Gangs that are placed together on the same hosts; those with equal keys form one family."""

    key: Hashable
    rank: int
    """Families with a lower rank are served first."""
    spread: bool = False
    """Place at most one of its tasks on a host."""
    even: bool = False
    """Place each task on the host with the most free resources: claim as many hosts as there are tasks."""
    to_desired_host: bool = False
    """Place each gang on its desired host."""
    to_volume: bool = False
    """Place each gang on its desired host only, where its volume is."""
    nowhere_else: bool = False
    """Give a gang back that its desired host does not take, in place of placing it elsewhere."""


fast_init(Family)


class Strategy(Protocol):
    """Placement of one task type. Pure."""

    @property
    def type(self) -> TaskType:
        """The task type that is placed."""
        ...

    @property
    def longest(self) -> float:
        """Seconds after which a gang is given back unplaced."""
        ...

    def family(self, gang: Gang) -> Family:
        """Return the family that a gang belongs to."""
        ...

    def policy(self, family: Family) -> Policy:
        """Return how the gangs of a family are placed."""
        ...


@dataclass(frozen=True, slots=True)
class Scored:
    """A strategy whose hosts are chosen by a score that is plugged in, apart from desired hosts."""

    strategy: Strategy
    score: HostScore

    @property
    def type(self) -> TaskType:
        """The task type that is placed."""
        return self.strategy.type

    @property
    def longest(self) -> float:
        """Seconds after which a gang is given back unplaced."""
        return self.strategy.longest

    def family(self, gang: Gang) -> Family:
        """Return the family that a gang belongs to."""
        return self.strategy.family(gang)

    def policy(self, family: Family) -> Policy:
        """Return how the gangs of a family are placed."""
        policy = self.strategy.policy(family)
        if policy.desired is not Desired.ANY:
            return policy
        return replace(policy, scorer=Scorer.PLUGGED_IN, score=self.score)


def rank_of(gang: Gang) -> int:
    """Rank tasks that need a reserved host first, then revocable ones, then the rest."""
    if gang.wants_reservation:
        return _RESERVED
    return _REVOCABLE if any(needs.revocable for needs, _ in gang.shape) else _REST


def families(strategy: Strategy, gangs: Iterable[Gang]) -> list[tuple[Family, list[Gang]]]:
    """Group gangs by family, in the order in which families are served.

    Those of several owners form families of their own: a claim is used by one launch, of one job manager.
    """
    families: dict[Family, list[Gang]] = {}
    for gang in gangs:
        family = strategy.family(gang)
        if gang.owner:
            family = replace(family, key=(family.key, gang.owner))
        families.setdefault(family, []).append(gang)
    return sorted(families.items(), key=lambda item: item[0].rank)

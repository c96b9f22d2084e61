"""When gangs without a place are given back, and with which reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peloton.model.amounts import duration
from placement.core.model import Gang, Missing, Needs, Unplaced
from placement.core.reasons import busy, host_of_volume, no_host_fits, own_host_refuses
from placement.core.strategy import Family, Strategy


@dataclass(frozen=True, slots=True)
class Rules:
    """How an engine places gangs."""

    strategy: Strategy
    max_hosts: int = 1000
    """Hosts claimed with one call."""
    patience: float = 2.0
    """Seconds that a gang waits for hosts which fit but are in use."""
    desired_host_patience: float = 100.0
    """Seconds that a gang waits for its desired host."""


@dataclass(slots=True)
class NoMatch:
    """Results of one pass: the needs for which no host came, and what whole gangs missed."""

    counts: dict[Needs, Mapping[str, int]] = field(default_factory=dict)
    details: dict[Needs, Sequence[str]] = field(default_factory=dict)
    """Why claimed hosts were refused."""
    missing: dict[Missing, Missing] = field(default_factory=dict)
    """By the shape of the gang."""
    on_used_hosts: int = 0
    """Hosts that would do, but hold a task of the job already, which is spread."""

    def needs_of(self, gang: Gang) -> Needs | None:
        """Return the first needs of a gang for which no host came; None: there are none."""
        return next((needs for needs, _ in gang.shape if needs in self.counts), None)

    def reason(self, gang: Gang, needs: Needs, family: Family) -> str:
        """Return why a gang was not placed, for users."""
        counts, details = self.counts[needs], self.details[needs]
        if family.to_volume:
            return host_of_volume(gang, counts)
        if family.nowhere_else:
            return own_host_refuses(gang, counts, details)
        missing = self.missing.get(gang.shape, gang.shape)
        return no_host_fits(gang, missing, counts, self.on_used_hosts, details)


def given_up(
    waiting: Mapping[Gang, float], no_match: NoMatch, family: Family, rules: Rules, now: float
) -> tuple[Unplaced, ...]:
    """Return the gangs that have waited long enough, each with its reason.

    `waiting` has the time of arrival of each. A gang waits for hosts that are busy, and never longer than its
    own time-out or the strategy's.
    """
    found = []
    for gang, since in waiting.items():
        longest = min(rules.strategy.longest, gang.time_out or rules.strategy.longest)
        needs = no_match.needs_of(gang)
        if needs is not None:
            counts = no_match.counts[needs]
            patience = rules.patience if busy(counts) else 0.0
            if now - since >= min(patience, longest):
                found.append(Unplaced(gang, no_match.reason(gang, needs, family), counts))
        elif now - since >= longest:
            found.append(Unplaced(gang, f"not placed within {duration(longest)}"))
    return tuple(found)

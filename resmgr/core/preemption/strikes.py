"""Counting how many checks in a row found a pool over its entitlement."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Strikes:
    """A value: `counted` gives the next one. A pool that is left out of one check starts over."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """By path; only pools that the last check found over."""

    def of(self, path: str) -> int:
        return self.counts.get(path, 0)

    def counted(self, over: Collection[str]) -> Strikes:
        """After a check that found these pools over."""
        return Strikes({path: self.of(path) + 1 for path in over})

"""Consecutive checks that found a pool over its entitlement."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Strikes:
    """Counts by pool; a value. A pool that one check does not find over starts again."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts by path, of pools that the last check found over."""

    def of(self, path: str) -> int:
        """Return the count of a pool."""
        return self.counts.get(path, 0)

    def counted(self, over: Collection[str]) -> Strikes:
        """Return the counts after a check that found these pools over."""
        return Strikes({path: self.of(path) + 1 for path in over})

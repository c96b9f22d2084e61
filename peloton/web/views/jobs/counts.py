"""Instances of a job counted by state, in the order of a bar."""

from __future__ import annotations

from collections.abc import Mapping

ORDER = (
    *("RUNNING", "STARTING", "LAUNCHED", "LAUNCHING", "PLACED", "PLACING", "RESERVED", "READY"),
    *("PENDING", "INITIALIZED", "KILLING", "PREEMPTING", "SUCCEEDED", "FAILED", "LOST", "KILLED", "DELETED"),
)
"""States in the order of the bar."""
NOT_CREATED = "NOT_CREATED"
"""Shown for instances that the job manager has yet to create."""


def counts(stats: Mapping[str, int], instances: int) -> list[tuple[str, int]]:
    """Return how many instances are in each state, with those that are not created yet at last."""
    known = {state: stats[state] for state in ORDER if stats.get(state)}
    known |= {state: count for state, count in sorted(stats.items()) if count and state not in ORDER}
    missing = instances - sum(known.values())
    if missing > 0:
        known[NOT_CREATED] = missing
    return list(known.items())

"""When reservations are planned anew."""

from __future__ import annotations

import math

REPLAN_SECONDS = 0.9
"""Least time between two plans for the same gangs."""


class Replanning:
    """The plans of all reservations, one at a time: others may run between the steps of a plan."""

    def __init__(self) -> None:
        self._planned_at = -math.inf
        self._running = False

    def is_due(self, new: bool, now: float) -> bool:
        """Return whether a request needs a new plan: it has `new` gangs, or the last plan is old."""
        return new or now - self._planned_at >= REPLAN_SECONDS

    def begin(self, now: float) -> bool:
        """Begin a plan; return False where one is going on already."""
        if self._running:
            return False
        self._running, self._planned_at = True, now
        return True

    def end(self) -> None:
        """End a plan."""
        assert self._running, "no plan has begun"
        self._running = False

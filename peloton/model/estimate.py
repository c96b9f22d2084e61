"""When instances that wait will start, as the simulator expects it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expected:
    """When something comes, in seconds from now. None: not within the time that was simulated."""

    middle: float | None
    """In half of the runs it comes until then."""
    low: float | None
    """In all but one of twenty runs it comes later."""
    high: float | None
    """In all but one of twenty runs it comes until then."""


@dataclass(frozen=True, slots=True)
class UnknownRuns:
    """Running tasks of which is not known how long they take: no limit, and no runs of their kind before."""

    pool: str
    """Path of their pool."""
    tasks: int


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """When the waiting instances of a job will start."""

    waiting: int
    """How many they are."""
    runs: int
    """Runs of the simulator."""
    first: Expected
    """When the first of them starts."""
    all: Expected
    """When the last of them starts."""
    within: float
    """Seconds from now that were simulated at the least, where something does not come."""
    unknown: tuple[UnknownRuns, ...] = ()
    """Tasks that were taken to run without end."""

"""The size of events: a cycle takes a bounded number of runs."""

from __future__ import annotations

from jobmgr.core.state.events import (
    Compared,
    Draining,
    Enqueued,
    EnqueueRefused,
    Event,
    Launched,
    LaunchRefused,
    Placed,
    Sampled,
    SecretMissing,
    Statuses,
    Withdrawn,
)


def weight(event: Event) -> int:
    """Return how many runs the event is about."""
    if isinstance(event, Statuses):
        return len(event.statuses)
    if isinstance(event, Sampled):
        return len(event.readings) // 10  # far cheaper than a status
    if isinstance(event, Placed):
        return sum(len(placement.runs) for placement in event.placements)
    if isinstance(event, Compared):
        return len(event.missing) + 1
    if isinstance(
        event, Enqueued | Withdrawn | EnqueueRefused | Launched | LaunchRefused | SecretMissing | Draining
    ):
        return len(event.runs)
    return 1

"""The size of events, and their pieces: a cycle takes a bounded number of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from jobmgr.core.state.events import (
    Compared,
    Draining,
    Enqueued,
    EnqueueRefused,
    Event,
    Launched,
    LaunchRefused,
    LaunchUncertain,
    PendingReasons,
    Placed,
    Placement,
    Preempted,
    Sampled,
    SecretMissing,
    Statuses,
    Withdrawn,
)

READINGS_PER_RUN = 10
"""A reading or a reason is only noted: it is far cheaper than a status."""
_PORTIONS = {
    Statuses: "statuses",
    Sampled: "readings",
    PendingReasons: "deltas",
    Enqueued: "runs",
    Launched: "runs",
    Placed: "placements",
}
"""Events that are cut, with the field of their items. These come in any portions anyway. What takes back
members of a gang, which are enqueued together again, or asks whether a service can spare its instances, stays
whole."""
_NOTES = Sampled | PendingReasons


def weight(event: Event) -> int:
    """Return how many runs the event is about."""
    if isinstance(event, Statuses):
        return len(event.statuses)
    if isinstance(event, Sampled):
        return len(event.readings) // READINGS_PER_RUN
    if isinstance(event, PendingReasons):
        return len(event.deltas) // READINGS_PER_RUN
    if isinstance(event, Placed):
        return sum(len(placement.runs) for placement in event.placements)
    if isinstance(event, Compared):
        return len(event.missing) + 1
    if isinstance(
        event,
        Enqueued
        | Withdrawn
        | EnqueueRefused
        | Launched
        | LaunchRefused
        | LaunchUncertain
        | SecretMissing
        | Draining
        | Preempted,
    ):
        return len(event.runs)
    return 1


def pieces(event: Event, most: int) -> Sequence[Event]:
    """Return events that say together, in order, what one says; each is about at most `most` runs.

    Returns the event itself where it is small, or is not one of those that are cut. The runs of one host stay
    together.
    """
    name = _PORTIONS.get(type(event))
    if name is None or weight(event) <= most:
        return (event,)
    if isinstance(event, Placed):
        return [replace(event, placements=part) for part in _by_runs(event.placements, most)]
    items: Any = getattr(event, name)
    step = most * READINGS_PER_RUN if isinstance(event, _NOTES) else most
    cut: Any = event
    return [replace(cut, **{name: items[at : at + step]}) for at in range(0, len(items), step)]


def _by_runs(placements: Sequence[Placement], most: int) -> Iterator[Sequence[Placement]]:
    part: list[Placement] = []
    runs = 0
    for placement in placements:
        if part and runs + len(placement.runs) > most:
            yield part
            part, runs = [], 0
        part.append(placement)
        runs += len(placement.runs)
    yield part

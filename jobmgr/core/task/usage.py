"""What runs have held: limit × seconds by kind."""

from __future__ import annotations

from peloton.model.resources import MILLI, Resources

NANOSECONDS = 1_000_000_000
Span = tuple[int, int]
"""Start and end in nanoseconds since 1970; a start of 0 means that the run did not start."""


def held(need: Resources, span: Span) -> dict[str, float]:
    """Return what a run has held; empty for one that did not start."""
    start, end = span
    if not start or end <= start:
        return {}
    seconds = (end - start) / NANOSECONDS
    return {
        "cpu": need.cpu / MILLI * seconds,
        "gpu": need.gpu / MILLI * seconds,
        "memory": need.memory / MILLI * seconds,
    }


def more_held(need: Resources, before: Span, after: Span) -> dict[str, float]:
    """Return the difference when the times of a run are corrected; it may be negative."""
    if before == after:
        return {}
    old, new = held(need, before), held(need, after)
    return {kind: new.get(kind, 0.0) - old.get(kind, 0.0) for kind in old | new}

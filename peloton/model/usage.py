"""What runs have held and used: the kinds in the resource usage of tasks and jobs, and what agents measure.

A kind of its own, such as `cpu`, is what was held: the limit × seconds, in core, GPU and MB seconds. Beside
it stands what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

BYTES_PER_MB = 1024 * 1024
USED_CPU = "cpu_used"
"""CPU seconds."""
USED_MEMORY = "memory_used"
"""MB × seconds."""
PEAK_MEMORY = "memory_peak"
"""The most MB at a time, of any run of a task, and of any task of a job: the one kind that is not summed."""
PREEMPTED = "preempted_"
"""Before a kind: what was held in vain by runs that were preempted, since their last checkpoints."""


class Reading(NamedTuple):
    """What an agent tells of a run; 0 where it does not."""

    at: int
    """Nanoseconds since 1970."""
    cpu: int
    """CPU time since the start of the run, in nanoseconds."""
    memory: int
    """Bytes in use now."""
    peak: int
    """The most bytes at a time so far."""


def joined(kind: str, one: float, other: float) -> float:
    """Return the usage of both: the sum, or the larger one of a peak."""
    return max(one, other) if kind == PEAK_MEMORY else one + other


def join(usage: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    """Return the usage of both."""
    if not usage:
        return dict(more)
    found = dict(usage)
    for kind, amount in more.items():
        found[kind] = joined(kind, found.get(kind, 0.0), amount)
    return found

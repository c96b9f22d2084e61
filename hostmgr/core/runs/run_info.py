"""What a run uses, and when it ends at the latest."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.resources import Resources

Vector = tuple[int, int, int, int, int, int]
"""CPU, memory, disk, GPU and revocable CPU in thousandths, and ports."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a run uses, and when it ends at the latest."""

    amounts: Vector
    end: float | None
    """On the monotonic clock; None: not known."""


def vector(amounts: Resources, revocable: bool, ports: int = 0) -> Vector:
    """Return the amounts of a task, whose CPU is revocable or not."""
    cpu, memory, disk, gpu = amounts.values()
    return (0, memory, disk, gpu, cpu, ports) if revocable else (cpu, memory, disk, gpu, 0, ports)

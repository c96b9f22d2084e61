"""Priority classes: names of priorities, given by the settings of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A name for a priority."""

    name: str
    priority: int
    description: str = ""


PriorityClasses = Mapping[str, PriorityClass]
"""Classes by name."""
NO_CLASSES: PriorityClasses = MappingProxyType({})


def highest_first(classes: PriorityClasses) -> list[PriorityClass]:
    """Return the classes by priority, the highest first, then by name."""
    return sorted(classes.values(), key=lambda each: (-each.priority, each.name))

"""Texts of many instances."""

from __future__ import annotations

from collections.abc import Iterable


def spans(instances: Iterable[int]) -> str:
    """Return the spans of a list of instances: `0-9, 12`."""
    found: list[list[int]] = []
    for instance in sorted(instances):
        if found and found[-1][1] == instance - 1:
            found[-1][1] = instance
        else:
            found.append([instance, instance])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found) or "none"

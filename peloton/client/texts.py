"""Texts from a cluster as one line for users."""

from __future__ import annotations

from collections.abc import Iterable


def clean(cell: object) -> str:
    """Return a cell's text on one line, without control characters; numbers without a useless `.0`."""
    if isinstance(cell, float):
        return f"{cell:.6f}".rstrip("0").rstrip(".") or "0"
    text = str(cell)
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else " " for letter in text)
    return text.strip()


def spans(instances: Iterable[int]) -> str:
    """Return the spans of a list of instances: `0-9, 12`."""
    found: list[list[int]] = []
    for instance in sorted(instances):
        if found and found[-1][1] == instance - 1:
            found[-1][1] = instance
        else:
            found.append([instance, instance])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found) or "none"

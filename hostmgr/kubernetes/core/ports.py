"""Ranges of ports."""

from __future__ import annotations

from collections.abc import Sequence

PortRange = tuple[int, int]
"""First and last, both included."""


def without(ranges: Sequence[PortRange], taken: frozenset[int]) -> tuple[PortRange, ...]:
    """Return ranges without some ports."""
    found: list[PortRange] = []
    for first, last in ranges:
        for port in sorted(port for port in taken if first <= port <= last):
            if first < port:
                found.append((first, port - 1))
            first = port + 1
        if first <= last:
            found.append((first, last))
    return tuple(found)

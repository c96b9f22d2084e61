"""Hosts counted by what was found about them (behaviour 5.2), in a line for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MATCH = "match"
"""Hosts that were found fit, which are no reason for anything."""
_HEAD = "no host fits: "


def refusals(counts: Mapping[str, int]) -> dict[str, int]:
    """Without those that fit, and without zeros."""
    return {name: count for name, count in counts.items() if name != MATCH and count}


def tell(counts: Mapping[str, int] | None, more: Iterable[str] = ()) -> str:
    """`no host fits: 12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints; MORE; …`, the most
    frequent first. Without counts (None) only what is told more."""
    return _HEAD + "; ".join([*([] if counts is None else [counted(counts)]), *more])


def counted(counts: Mapping[str, int]) -> str:
    """`12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints`."""
    left = sorted(refusals(counts).items(), key=lambda item: (-item[1], item[0]))
    hosts = sum(count for _, count in left)
    if not hosts:
        return "there are no hosts"
    parts = ", ".join(f"{count} {name}" for name, count in left)
    return f"{hosts} {'host' if hosts == 1 else 'hosts'}: {parts}"

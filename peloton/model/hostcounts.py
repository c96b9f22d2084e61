"""Hosts counted by match result (docs/behaviour/placement.md, Claiming hosts), as text for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MATCH = "match"
"""The match result of hosts that fit."""
_HEAD = "no host fits: "


def refusals(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts other than zero, without hosts that fit."""
    return {name: count for name, count in counts.items() if name != MATCH and count}


def describe_no_match(counts: Mapping[str, int] | None, more: Iterable[str] = ()) -> str:
    """Describe why no host fits, the most frequent result first.

    For example `no host fits: 12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints; MORE; …`.
    Without counts (None) the text has only `more`.
    """
    return _HEAD + "; ".join([*([] if counts is None else [counted(counts)]), *more])


def counted(counts: Mapping[str, int]) -> str:
    """Describe counts, for example `12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints`."""
    left = sorted(refusals(counts).items(), key=lambda item: (-item[1], item[0]))
    hosts = sum(count for _, count in left)
    if not hosts:
        return "there are no hosts"
    parts = ", ".join(f"{count} {name}" for name, count in left)
    return f"{hosts} {'host' if hosts == 1 else 'hosts'}: {parts}"

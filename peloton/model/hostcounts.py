"""Hosts counted by what was found about them, in a line that people read and that is read back here.

The placement engine's reason is the only way in which hostmgr's counts (behaviour 5.2) reach the resource
manager: its messages have no field for them. Names are of lower-case letters, digits and `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MATCH = "match"
"""Hosts that were found fit, which are no reason for anything."""
_HEAD = "no host fits: "
_TOLD = re.compile(rf"{_HEAD}\d+ hosts?: ([^;]*)")
_COUNT = re.compile(r"(\d+) ([a-z0-9_]+)(?:, |$)")


def refusals(counts: Mapping[str, int]) -> dict[str, int]:
    """Without those that fit, and without zeros."""
    return {name: count for name, count in counts.items() if name != MATCH and count}


def tell(counts: Mapping[str, int] | None, more: Iterable[str] = ()) -> str:
    """`no host fits: 12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints; MORE; …`, the most
    frequent first. Without counts (None) only what is told more."""
    return _HEAD + "; ".join([*([] if counts is None else [counted(counts)]), *more])


def read(reason: str) -> dict[str, int]:
    """The refusals that `tell` was given; none where the reason has none."""
    found = _TOLD.match(reason)
    return {name: int(count) for count, name in _COUNT.findall(found[1])} if found else {}


def counted(counts: Mapping[str, int]) -> str:
    """`12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints`."""
    left = sorted(refusals(counts).items(), key=lambda item: (-item[1], item[0]))
    hosts = sum(count for _, count in left)
    if not hosts:
        return "there are no hosts"
    parts = ", ".join(f"{count} {name}" for name, count in left)
    return f"{hosts} {'host' if hosts == 1 else 'hosts'}: {parts}"

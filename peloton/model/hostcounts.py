"""Hosts counted by match result (docs/behaviour/placement.md, Claiming hosts), as text for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from peloton.model.plural import plural

MATCH = "match"
"""The match result of hosts that fit."""
_HEAD = "no host fits: "
_WORDS = {
    "no_offer": "without an offer from Mesos now",
    "insufficient_offer_resources": "with too little free",
    "insufficient_resources": "too small even when empty",
    "mismatch_constraints": "that its constraint excludes",
    "mismatch_task_constraints": "with tasks that its constraint refuses",
    "mismatch_gpu": "with too few GPUs",
    "mismatch_status": "claimed or not in service",
    "mismatch_max_host_limit": "beyond those asked for",
    "scarce_resources": "with GPUs, kept for tasks that request some",
    "too_many_starting": "with as many tasks starting as allowed",
    "held": "whose free room is held for instances that come back",
    "failed_launches": "passed over after failed launches",
}
"""What users read of a match result, after the number of hosts."""


def refusals(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts other than zero, without hosts that fit."""
    return {name: count for name, count in counts.items() if name != MATCH and count}


def describe_no_match(counts: Mapping[str, int] | None, more: Iterable[str] = ()) -> str:
    """Describe why no host fits, the most frequent result first.

    For example `no host fits: 12 hosts: 8 with too little free, 4 with too few GPUs; MORE; …`.
    Without counts (None) the text has only `more`.
    """
    return _HEAD + "; ".join([*([] if counts is None else [counted(counts)]), *more])


def counted(counts: Mapping[str, int]) -> str:
    """Describe counts, for example `12 hosts: 8 with too little free, 4 with too few GPUs`."""
    left = sorted(refusals(counts).items(), key=lambda item: (-item[1], item[0]))
    hosts = sum(count for _, count in left)
    if not hosts:
        return "there are no hosts"
    whole = plural(hosts, "host")
    if len(left) == 1:
        return f"{whole} {in_words(left[0][0])}"
    return f"{whole}: " + ", ".join(f"{count} {in_words(name)}" for name, count in left)


def in_words(result: str) -> str:
    """Return a match result as users read it, such as `with too little free`."""
    return _WORDS.get(result, result.replace("_", " "))

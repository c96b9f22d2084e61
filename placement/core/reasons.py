"""Why a gang was not placed, for a human."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement.core.model import Gang, Needs

MATCH = "match"
BUSY = ("mismatch_status", "no_offer")
"""Hosts that fit, but are claimed or used just now: they come back by themselves."""


def counted(counts: Mapping[str, int]) -> str:
    """`12 hosts: 8 insufficient_offer_resources, 4 mismatch_constraints`, the most frequent first."""
    left = sorted(_refusals(counts).items(), key=lambda item: (-item[1], item[0]))
    hosts = sum(count for _, count in left)
    if not hosts:
        return "there are no hosts"
    parts = ", ".join(f"{count} {reason}" for reason, count in left)
    return f"{hosts} {'host' if hosts == 1 else 'hosts'}: {parts}"


def no_host_fits(
    gang: Gang, missing: Sequence[tuple[Needs, int]], counts: Mapping[str, int], on_used_hosts: int = 0
) -> str:
    """`counts` is hostmgr's answer when no (further) host came. `on_used_hosts`: hosts that would do, but
    hold a task of the job already that is to be spread."""
    found = len(gang.tasks) - sum(count for _, count in missing)
    parts = [] if on_used_hosts and not _refusals(counts) else [counted(counts)]
    if on_used_hosts:
        parts.append(f"{on_used_hosts} just got a task of the job, which is spread")
    if found:
        parts.append(f"room for {found} of {len(gang.tasks)} tasks that belong together")
    return "no host fits: " + "; ".join(parts)


def busy(counts: Mapping[str, int]) -> bool:
    """Whether asking again soon may have another answer."""
    return any(counts.get(reason, 0) for reason in BUSY)


def _refusals(counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if reason != MATCH and count}

"""Reasons why a gang is not placed, for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.model.hostcounts import counted, describe_no_match, refusals
from placement.core.model import Gang, Needs

BUSY = ("mismatch_status", "no_offer", "too_many_starting")
"""Match results of hosts that fit, but are claimed, in use or busy with launches: they soon change."""
_UNNAMED = frozenset({"scarce_resources", "mismatch_gpu", "mismatch_constraints"})
"""Match results of hosts that were not named in a claim, and may be of one that was."""
LASTING = frozenset({"scarce_resources", "mismatch_gpu", "mismatch_constraints", "insufficient_resources"})
"""Match results that hold for an empty host too."""


def no_host_fits(
    gang: Gang, missing: Sequence[tuple[Needs, int]], counts: Mapping[str, int], on_used_hosts: int = 0
) -> str:
    """Describe why the gang was not placed.

    `counts` are the match results of the last claim. `on_used_hosts` is the number of hosts that would
    do, but hold a task of the job already, which is spread.
    """
    found = len(gang.tasks) - sum(count for _, count in missing)
    more = []
    if on_used_hosts:
        more.append(f"{on_used_hosts} just got a task of the job, which is spread")
    if found:
        more.append(f"room for {found} of {len(gang.tasks)} tasks that belong together")
    return describe_no_match(counts if refusals(counts) or not on_used_hosts else None, more)


def host_of_volume(gang: Gang, counts: Mapping[str, int]) -> str:
    """Describe why a gang waits for the host of its volume."""
    others = {reason: count for reason, count in counts.items() if reason != "mismatch_constraints"}
    why = counted(others) if refusals(others) else "the host is gone, or its volume is in use"
    return f"waits for host {gang.desired_host}, which has its volume: {why}"


def of_named(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the match results of a claim for named hosts, without those of all other hosts."""
    return {name: count for name, count in counts.items() if name not in _UNNAMED}


def own_host_refuses(gang: Gang, counts: Mapping[str, int]) -> str:
    """Describe why a gang was not placed on the one host that it is for.

    `counts` are the match results of the hosts that were named in the last claim.
    """
    if not gang.desired_host:
        return "no host is named that the task is for"
    if not refusals(counts):
        return f"waits for host {gang.desired_host}, which is not registered or does not meet the constraint"
    return f"waits for host {gang.desired_host}: {counted(counts)}"


def may_be_infeasible(gang: Gang, counts: Mapping[str, int]) -> bool:
    """Return whether the gang might not fit on empty hosts either.

    `counts` are the match results of the last claim. A host that would do when empty is proof for a single
    task, but not for a gang.
    """
    return len(gang.tasks) > 1 or LASTING.issuperset(refusals(counts))


def busy(counts: Mapping[str, int]) -> bool:
    """Return whether a claim may succeed soon with the hosts there are."""
    return any(counts.get(reason, 0) for reason in BUSY)

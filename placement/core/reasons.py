"""Why a gang was not placed, for a human."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.model.hostcounts import refusals, tell
from placement.core.model import Gang, Needs

BUSY = ("mismatch_status", "no_offer", "too_many_starting")
"""Hosts that fit, but are claimed or used or busy with launches just now: they come back by themselves."""


LASTING = frozenset({"scarce_resources", "mismatch_gpu", "mismatch_constraints", "insufficient_resources"})
"""What keeps a task from a host whatever else is on it."""


def no_host_fits(
    gang: Gang, missing: Sequence[tuple[Needs, int]], counts: Mapping[str, int], on_used_hosts: int = 0
) -> str:
    """`counts` is hostmgr's answer when no (further) host came. `on_used_hosts`: hosts that would do, but
    hold a task of the job already that is to be spread."""
    found = len(gang.tasks) - sum(count for _, count in missing)
    more = []
    if on_used_hosts:
        more.append(f"{on_used_hosts} just got a task of the job, which is spread")
    if found:
        more.append(f"room for {found} of {len(gang.tasks)} tasks that belong together")
    return tell(counts if refusals(counts) or not on_used_hosts else None, more)


def doubtful(gang: Gang, counts: Mapping[str, int]) -> bool:
    """Whether it may be that the gang would not fit on empty hosts either. `counts` is hostmgr's answer when
    no (further) host came: one that would do when it is empty answers for a single task, not for a gang."""
    return len(gang.tasks) > 1 or LASTING.issuperset(refusals(counts))


def busy(counts: Mapping[str, int]) -> bool:
    """Whether asking again soon may have another answer."""
    return any(counts.get(reason, 0) for reason in BUSY)

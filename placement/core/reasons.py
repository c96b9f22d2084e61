"""Reasons why a gang is not placed, for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peloton.model.amounts import amount, amount_of
from peloton.model.hostcounts import counted, describe_no_match, refusals
from peloton.model.plural import plural
from peloton.model.resources import KINDS, MILLI
from placement.core.model import Gang, Needs

BUSY = ("mismatch_status", "no_offer", "too_many_starting", "held")
"""Match results of hosts that fit, but are claimed, in use, held or busy with launches: they soon change."""
_UNNAMED = frozenset({"scarce_resources", "mismatch_gpu", "mismatch_constraints"})
"""Match results of hosts that were not named in a claim, and may be of one that was."""
LASTING = frozenset({"scarce_resources", "mismatch_gpu", "mismatch_constraints", "insufficient_resources"})
"""Match results that hold for an empty host too."""


def no_host_fits(
    gang: Gang,
    missing: Sequence[tuple[Needs, int]],
    counts: Mapping[str, int],
    on_used_hosts: int = 0,
    details: Sequence[str] = (),
) -> str:
    """Describe why the gang was not placed, and what would have to change.

    `counts` are the match results of the last claim, and of the hosts claimed before. `on_used_hosts` is the
    number of hosts that would do, but hold a task of the job already, which is spread. `details` describe the
    refusals of claimed hosts.
    """
    found = len(gang.tasks) - sum(count for _, count in missing)
    more = []
    if on_used_hosts:
        more.append(f"{on_used_hosts} just got a task of the job, which is spread")
    if found:
        more.append(f"room for {found} of {plural(len(gang.tasks), 'task')} that belong together")
    needs = missing[0][0] if missing else gang.tasks[0].needs
    more += [text for name, text in _remedies(needs).items() if counts.get(name)]
    more += details
    return describe_no_match(counts if refusals(counts) or not on_used_hosts else None, more)


def host_of_volume(gang: Gang, counts: Mapping[str, int]) -> str:
    """Describe why a gang waits for the host of its volume."""
    others = of_named(counts)
    why = counted(others) if refusals(others) else "the host is gone, or its volume is in use"
    return f"waits for host {gang.desired_host}, which has its volume: {why}"


def of_named(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the match results of a claim for named hosts, without those of all other hosts."""
    return {name: count for name, count in counts.items() if name not in _UNNAMED}


def own_host_refuses(gang: Gang, counts: Mapping[str, int], details: Sequence[str] = ()) -> str:
    """Describe why a gang was not placed on the one host that it is for.

    `counts` are the match results of the hosts that were named in the last claim.
    """
    if not gang.desired_host:
        return "no host is named that the task is for"
    if not refusals(counts):
        return f"waits for host {gang.desired_host}, which is not registered or does not meet the constraint"
    return "; ".join((f"waits for host {gang.desired_host}: {counted(counts)}", *details))


def may_be_infeasible(gang: Gang, counts: Mapping[str, int]) -> bool:
    """Return whether the gang might not fit on empty hosts either.

    `counts` are the match results of the last claim. A host that would do when empty is proof for a single
    task, but not for a gang.
    """
    return len(gang.tasks) > 1 or LASTING.issuperset(refusals(counts))


def busy(counts: Mapping[str, int]) -> bool:
    """Return whether a claim may succeed soon with the hosts there are."""
    return any(counts.get(reason, 0) for reason in BUSY)


def with_refusals(counts: Mapping[str, int], held: int, refused: Mapping[str, int]) -> dict[str, int]:
    """Return the match results of a claim with those of the hosts that were claimed before.

    hostmgr counts the `held` hosts as claimed; the plan refuses some of them under the rules of `refused`.
    """
    merged = dict(counts)
    if CLAIMED in merged:
        merged[CLAIMED] = max(0, merged[CLAIMED] - held)
    for rule, count in refusals(refused).items():
        merged[rule] = merged.get(rule, 0) + count
    return merged


CLAIMED = "mismatch_status"


def _remedies(needs: Needs) -> dict[str, str]:
    """Return what would have to change, by match result of hostmgr."""
    amounts = describe_amounts(needs)
    tree = needs.host_class.tree
    return {
        "insufficient_resources": f"needs a host with {amounts}",
        "insufficient_offer_resources": f"needs {amounts} free on one host",
        "mismatch_constraints": f"needs a host where {tree} holds"
        if tree
        else "needs a host that is not exclusive",
        "mismatch_gpu": f"needs a host with {amount(needs.resources.gpu / MILLI, 'gpu')}",
        "scarce_resources": "needs a host without GPUs, or to request some",
        CLAIMED: "waits for hosts that are claimed or not in service",
        "no_offer": "waits for offers of hosts",
        "too_many_starting": "waits until fewer tasks are starting on a host",
        "held": f"needs {amounts} beside what is held for instances that are updated or restarted in place",
        "failed_launches": "waits for hosts on which launches failed",
    }


def describe_amounts(needs: Needs) -> str:
    """Describe what a task takes, for example `2 cores, 512 MB memory, 1 port`."""
    parts = [amount_of(value / MILLI, kind) for kind, value in _amounts(needs) if value]
    if needs.ports:
        parts.append(plural(needs.ports, "port"))
    return ", ".join(parts) or "nothing"


def _amounts(needs: Needs) -> list[tuple[str, int]]:
    names = ["revocable cpu" if needs.revocable else KINDS[0], *KINDS[1:]]
    return list(zip(names, needs.resources.values(), strict=True))

"""What a pool and its ancestors have of what a gang lacks."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.resources import KINDS
from resmgr.core.admission.checks import Check, FailedCheck
from resmgr.core.state.entities import Task
from resmgr.core.state.pool import Pool

_SIDES = {Check.SLACK_ENTITLEMENT: (True,), Check.NON_SLACK_ENTITLEMENT: (False, True)}
"""The sides to report, slack or not, where such a check refuses."""


@dataclass(frozen=True, slots=True)
class Share:
    """Amounts of one kind in a pool, in thousandths."""

    pool: str
    kind: str
    slack: bool
    allocation: int
    entitlement: int
    demand: int
    reservation: int
    limit: int
    """Reservation and limit are over all hosts."""
    hosts: str = ""
    """The class of hosts whose allocation, entitlement and demand these are; empty: all hosts."""


def shares(task: Task, check: FailedCheck | None) -> list[Share]:
    """Return the shares of the leaf and its ancestors.

    They are of the kind of the check, else of all kinds that the gang requests; with the part for revocable
    tasks where that is missing.
    """
    if task.gang is None:
        return []
    charge = task.gang.charge
    if check is not None:
        kinds, sides = [check.kind], _SIDES.get(check.check, (False,))
    else:
        sides = (charge.slack is not None,)
        requested = charge.slack if charge.slack is not None else charge.entitled
        kinds = [kind for kind, amount in zip(KINDS, requested, strict=True) if amount]
    leaf = task.pool if check is not None and not check.hosts else task.pool.part(charge)
    return [_share(pool, kind, slack) for pool in leaf.ancestors for kind in kinds for slack in sides]


def _share(pool: Pool, kind: str, slack: bool) -> Share:
    i = KINDS.index(kind)
    return Share(
        pool=pool.path,
        kind=kind,
        slack=slack,
        allocation=(pool.slack if slack else pool.used)[i],
        entitlement=(pool.slack_entitlement if slack else pool.usable())[i],
        demand=sum(_demand(each, i, slack) for each in pool.subtree()),
        reservation=pool.whole.reservation[i],
        limit=pool.whole.limit[i],
        hosts=pool.hosts,
    )


def _demand(leaf: Pool, i: int, slack: bool) -> int:
    """Return the demand: revocable tasks request slack cpu, and the pool's memory, disk and gpu."""
    if slack:
        return leaf.slack_demand[i]
    return leaf.demand[i] + (leaf.slack_demand[i] if KINDS[i] != "cpu" else 0)

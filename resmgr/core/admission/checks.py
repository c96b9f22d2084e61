"""Admission: which gangs of a pool may have resources now, and why the others may not (behaviour 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from peloton.model.resources import KINDS, MILLI
from resmgr.core.pools import Pool
from resmgr.core.queues import GangQueue
from resmgr.core.tasks import Charge, Gang, Vector, together

_NOTHING = [0, 0, 0, 0]


class Check(Enum):
    """Which rule refused: the two amounts that it names."""

    ENTITLEMENT = ("allocation", "entitlement")
    NON_SLACK_ENTITLEMENT = ("non-slack allocation", "non-slack entitlement")
    SLACK_ENTITLEMENT = ("slack allocation", "slack entitlement")
    CONTROLLER = ("controller allocation", "controller limit")
    RESERVATION = ("non-preemptible allocation", "reservation")
    LIMIT = ("nothing", "limit")


SHARED = frozenset({Check.ENTITLEMENT, Check.NON_SLACK_ENTITLEMENT, Check.SLACK_ENTITLEMENT})
"""Checks against what depends on all pools' demand."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Amounts in thousandths."""

    check: Check
    kind: str
    allocation: int
    gang: int
    bound: int
    path: str

    def __str__(self) -> str:
        held, bound = self.check.value
        return (
            f"{self.kind}: {held} {self.allocation / MILLI:g} + gang {self.gang / MILLI:g}"
            f" > {bound} {self.bound / MILLI:g} in {self.path}"
        )


def refusal(gang: Gang, preemption: bool) -> Refusal | None:
    """The first check that the gang does not pass, None if it may be admitted.

    The pool's entitlement bounds all that it has, and each side of it what is of that side: what is for
    revocable tasks is not there for others meanwhile, who would be preempted for it. `preemption`: whether
    the cluster preempts, which is what makes non-preemptible tasks keep to the reservation.
    """
    charge, leaf = gang.charge, gang.pool
    asked = charge.entitled
    cpu, memory, disk, gpu = asked
    for pool in leaf.lineage:
        # As in `_over`, which is a call more for each pool above each gang.
        used, bound = pool.used, pool.entitlement
        if (
            used[0] + cpu > bound[0]
            or used[1] + memory > bound[1]
            or used[2] + disk > bound[2]
            or used[3] + gpu > bound[3]
        ):
            found = _over(Check.ENTITLEMENT, used, asked, bound, pool)
            if found is not None:
                return found
        if pool.firm_entitlement is not None and charge.firm is not None:
            side = Check.NON_SLACK_ENTITLEMENT
            found = _over(side, pool.firm(), charge.firm, pool.firm_entitlement, pool)
            if found is not None:
                return found
    if charge.slack is not None:
        for pool in leaf.lineage:
            found = _over(Check.SLACK_ENTITLEMENT, pool.slack, charge.slack, pool.slack_entitlement, pool)
            if found is not None:
                return found
    if charge.controller is not None and leaf.controller_limit is not None:
        found = _over(Check.CONTROLLER, leaf.controller, charge.controller, leaf.controller_limit, leaf)
        if found is not None:
            return found
    if preemption and charge.non_preemptible is not None:
        return _over(Check.RESERVATION, leaf.non_preemptible, charge.non_preemptible, leaf.reservation, leaf)
    return None


def beyond_limit(pool: Pool, charges: Sequence[Charge]) -> str:
    """Why a gang of these charges could never be admitted: it is more than a limit. Empty where it is not.

    The cluster's capacity is no such limit: it changes by itself.
    """
    asked = charges[0].entitled if len(charges) == 1 else together(charge.entitled for charge in charges)
    cpu, memory, disk, gpu = asked
    for each in pool.lineage:
        limit = each.limit
        if cpu <= limit[0] and memory <= limit[1] and disk <= limit[2] and gpu <= limit[3]:
            continue
        found = _over(Check.LIMIT, _NOTHING, asked, limit, each)
        if found is not None and each.parent is not None:
            return f"{found.kind}: gang {found.gang / MILLI:g} > limit {found.bound / MILLI:g} of {each.path}"
    return ""


def turn(queue: GangQueue, preemption: bool) -> Iterator[tuple[Gang, Refusal | None]]:
    """One turn through a pool's queue: each gang that may be admitted, in order, and each head that not.

    The caller takes an admitted gang out of its queue and charges the pool before it asks for the next
    one; it may stop at any time. A refused head of `pending` that has a queue of its own has been moved
    there; any other refused head that the caller leaves in its queue ends the turn.
    """
    while (gang := queue.head()) is not None:
        refused = refusal(gang, preemption)
        yield gang, refused
        if refused is not None and gang.queue is queue and not _step_aside(gang, queue, refused):
            return


def _step_aside(gang: Gang, queue: GangQueue, refused: Refusal) -> bool:
    """Whether the refused head left `queue`, so that it no longer blocks what is behind it."""
    non_preemptible, controller, revocable, pending = gang.pool.queues
    to = None
    if queue is pending:
        if refused.check is Check.CONTROLLER:
            to = controller
        elif not gang.preemptible:
            to = non_preemptible
        elif gang.controller:
            to = controller
        elif gang.revocable:
            to = revocable
    elif queue is non_preemptible and refused.check is Check.CONTROLLER:
        to = controller
    if to is None:
        return False
    queue.remove(gang)
    to.add(gang)
    return True


def _over(check: Check, held: Sequence[int], asked: Vector, bound: Vector, pool: Pool) -> Refusal | None:
    if (
        held[0] + asked[0] <= bound[0]
        and held[1] + asked[1] <= bound[1]
        and held[2] + asked[2] <= bound[2]
        and held[3] + asked[3] <= bound[3]
    ):
        return None
    for i, kind in enumerate(KINDS):
        if asked[i] and held[i] + asked[i] > bound[i]:
            return Refusal(check, kind, held[i], asked[i], bound[i], pool.path)
    return None

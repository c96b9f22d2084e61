"""Admission checks: which gangs of a pool may have resources now, and why others may not.

See docs/behaviour/pools.md, Admission.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from peloton.model.amounts import amount
from peloton.model.limits import over_limit_text
from peloton.model.resources import KINDS, MILLI
from resmgr.core.state.amounts import Charge, Vector, total
from resmgr.core.state.entities import Gang
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import GangQueue, PoolQueues

_NOTHING = [0, 0, 0, 0]


class Check(Enum):
    """The rule that refused, with the names of the two amounts that it compares."""

    ENTITLEMENT = ("allocation", "entitlement")
    NON_SLACK_ENTITLEMENT = ("non-slack allocation", "non-slack entitlement")
    SLACK_ENTITLEMENT = ("slack allocation", "slack entitlement")
    CONTROLLER = ("controller allocation", "controller limit")
    RESERVATION = ("non-preemptible allocation", "reservation")
    LIMIT = ("nothing", "limit")
    POOL_LIMIT = ("allocation", "limit")
    """Only where there are several classes of hosts: with one, entitlement is at most the limit."""


SHARED = frozenset(
    {Check.ENTITLEMENT, Check.NON_SLACK_ENTITLEMENT, Check.SLACK_ENTITLEMENT, Check.POOL_LIMIT}
)
"""Checks against entitlement, which depends on the demand of all pools."""


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that a gang does not pass. Amounts are thousandths."""

    check: Check
    kind: str
    allocation: int
    gang: int
    bound: int
    path: str
    hosts: str = ""
    """The class of hosts whose amounts these are; empty: all hosts."""

    def __str__(self) -> str:
        held, bound = self.check.value
        return (
            f"{self.kind}: {held} {amount(self.allocation / MILLI, self.kind)}"
            f" + gang {amount(self.gang / MILLI, self.kind)}"
            f" > {bound} {amount(self.bound / MILLI, self.kind)}"
            f" in {self.path}{self.hosts and f' on {self.hosts}'}"
        )


def refusal(charge: Charge, leaf: Pool, preemption: bool) -> FailedCheck | None:
    """Return the first check that a gang of a leaf does not pass, None if it may be admitted.

    The pool's entitlement bounds all allocation, and each side of it the allocation of that side: tasks that
    are not revocable may not borrow the part for revocable ones, as they would be preempted for it.
    `preemption`: whether the cluster preempts, which confines non-preemptible tasks to the reservation.
    """
    if leaf.classes is not None:
        return _refusal_by_class(charge, leaf, preemption)
    requested = charge.entitled
    cpu, memory, disk, gpu = requested
    for pool in leaf.ancestors:
        # As in `_over`, which is a call more for each pool above each gang.
        used, bound = pool.used, pool.entitlement
        if (
            used[0] + cpu > bound[0]
            or used[1] + memory > bound[1]
            or used[2] + disk > bound[2]
            or used[3] + gpu > bound[3]
        ):
            found = _over(Check.ENTITLEMENT, used, requested, bound, pool)
            if found is not None:
                return found
        if pool.firm_entitlement is not None and charge.firm is not None:
            side = Check.NON_SLACK_ENTITLEMENT
            found = _over(side, pool.firm(), charge.firm, pool.firm_entitlement, pool)
            if found is not None:
                return found
    if charge.slack is not None:
        for pool in leaf.ancestors:
            found = _over(Check.SLACK_ENTITLEMENT, pool.slack, charge.slack, pool.slack_entitlement, pool)
            if found is not None:
                return found
    if charge.controller is None and (charge.non_preemptible is None or not preemption):
        return None
    return _beyond_own_bounds(charge, leaf, preemption)


def _refusal_by_class(charge: Charge, leaf: Pool, preemption: bool) -> FailedCheck | None:
    """Return the first check that a gang does not pass where there are several classes of hosts."""
    for part in charge.parts():
        found = refusal(part, leaf.part(part), preemption=False)
        if found is not None:
            return found
    for pool in leaf.ancestors[:-1]:
        # The parts of a limit may move between classes faster than the tasks do.
        found = _over(Check.POOL_LIMIT, pool.used, charge.entitled, pool.limit, pool)
        if found is not None:
            return found
    return _beyond_own_bounds(charge, leaf, preemption)


def _beyond_own_bounds(charge: Charge, leaf: Pool, preemption: bool) -> FailedCheck | None:
    """Return the check of a leaf's own bounds that a gang does not pass."""
    if charge.controller is not None and leaf.controller_limit is not None and leaf.whole is leaf:
        found = _over(Check.CONTROLLER, leaf.controller, charge.controller, leaf.controller_limit, leaf)
        if found is not None:
            return found
    if preemption and charge.non_preemptible is not None:
        return _over(Check.RESERVATION, leaf.non_preemptible, charge.non_preemptible, leaf.reservation, leaf)
    return None


def beyond_limit(pool: Pool, charges: Sequence[Charge]) -> str:
    """Return why a gang of these charges could never be admitted: it exceeds a limit. Empty: it does not.

    The cluster's capacity is no such limit: it changes by itself.
    """
    requested = charges[0].entitled if len(charges) == 1 else total(charge.entitled for charge in charges)
    cpu, memory, disk, gpu = requested
    for each in pool.ancestors:
        limit = each.limit
        if cpu <= limit[0] and memory <= limit[1] and disk <= limit[2] and gpu <= limit[3]:
            continue
        found = _over(Check.LIMIT, _NOTHING, requested, limit, each)
        if found is not None and each.parent is not None:
            return over_limit_text(found.kind, found.gang, found.bound, each.path)
    return ""


def heads(
    queue: GangQueue, queues: PoolQueues, preemption: bool
) -> Iterator[tuple[Gang, FailedCheck | None]]:
    """Iterate once through one of a pool's queues: the gangs that may be admitted, and refused heads.

    The caller removes an admitted gang from its queue and charges the pool before it continues; it may stop
    at any time. A refused head of `pending` that has a queue of its own has been moved there; any other
    refused head that the caller leaves in its queue ends the cycle.
    """
    while (gang := queue.head()) is not None:
        refused = refusal(gang.charge, gang.pool, preemption)
        yield gang, refused
        if (
            refused is not None
            and gang.queue is queue
            and not _move_to_own_queue(gang, queue, queues, refused)
        ):
            return


def _move_to_own_queue(gang: Gang, queue: GangQueue, queues: PoolQueues, refused: FailedCheck) -> bool:
    """Return whether the refused head left `queue`, so that it no longer blocks the gangs behind it."""
    non_preemptible, controller, revocable, pending = queues.all
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


def _over(
    check: Check, held: Sequence[int], requested: Vector, bound: Vector, pool: Pool
) -> FailedCheck | None:
    if (
        held[0] + requested[0] <= bound[0]
        and held[1] + requested[1] <= bound[1]
        and held[2] + requested[2] <= bound[2]
        and held[3] + requested[3] <= bound[3]
    ):
        return None
    for i, kind in enumerate(KINDS):
        if requested[i] and held[i] + requested[i] > bound[i]:
            return FailedCheck(check, kind, held[i], requested[i], bound[i], pool.path, pool.hosts)
    return None

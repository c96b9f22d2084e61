"""Demand that no pool can use does not count (docs/behaviour/pools.md, Demand that cannot be used).

A gang is admitted as a whole. Where several pools each have a gang that is larger than what they are entitled
to, dividing the capacity among them helps none of them: all would wait while hosts are idle. So the queued
demand of a pool all of whose first gangs are larger than its entitlement is *unusable*: others need not leave
anything for it. The gangs that wait first in such pools are then tried one after the other: one that is
within the entitlement of its pool, once the unusable demand of the others is left out, counts again, and so
is admitted.

A pool whose demand does not count keeps its own entitlement, in which none of its first gangs fits: so a
smaller gang that comes first is admitted at once, where there is room.

Usable demand is never reduced by this, whether within a reservation or by share. A pool that only waits for
tasks of its own to end keeps what it is entitled to, and a pool whose demand becomes usable gets its
entitlement back, by preemption if need be. Nothing is remembered: the rule follows from what is allocated and
queued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from resmgr.core.state.amounts import NOTHING, Vector, total
from resmgr.core.state.entities import Gang
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import PoolQueues

Counted = Mapping[Pool, Vector]
"""The queued demand, without slack, that counts for some pools in place of all that they have."""
Entitle = Callable[[Counted], None]
"""Sets the entitlement of all pools."""
Admits = Callable[[Gang], bool]
"""Tells whether a gang may be admitted now."""
TRIES = 8
"""Gangs that are tried at most in one calculation."""


class _Stuck(NamedTuple):
    """A pool, or its part in a class of hosts, whose first gangs are larger than its entitlement."""

    pool: Pool
    gang: Gang | None
    """The first one that may be tried; None: there is none."""


def leave_out_unusable(
    active: Mapping[Pool, PoolQueues], entitle: Entitle, admits: Admits, preemption: bool
) -> None:
    """Correct the entitlement of all pools, which counts all demand, for demand that cannot be used.

    `preemption`: whether the cluster preempts, which confines non-preemptible tasks to the reservation.
    """
    stuck = [found for pool, queues in active.items() if (found := _stuck(pool, queues, preemption))]
    if not stuck:
        return
    before = {each.pool: (each.pool.entitlement, each.pool.slack_entitlement) for each in stuck}
    counted: dict[Pool, Vector] = {each.pool: NOTHING for each in stuck}
    gangs = [each.gang for each in stuck if each.gang is not None and _fits_idle(each.gang)]
    for gang in sorted(gangs, key=_turn)[:TRIES]:
        trial = {**counted, **dict(_with(gang, counted))}
        entitle(trial)
        if admits(gang):
            counted = trial
    entitle(counted)
    for pool, amounts in before.items():
        if counted[pool] == NOTHING and _within(pool.used, amounts[0]):
            pool.entitle(*amounts)
            pool.unusable = True


def _within(held: Iterable[int], amounts: Vector) -> bool:
    return all(has <= may for has, may in zip(held, amounts, strict=True))


def place(gang: Gang) -> tuple[int, float]:
    """Return the place of a gang among the first ones of its pool's queues, the first one lowest."""
    return -gang.rank, gang.tasks[0].since


def _turn(gang: Gang) -> tuple[float, float]:
    """Return the place of a gang among those of other pools, the first one lowest.

    It is by the part of its entitlement that its pool holds, then by the time for which the gang waits. It is
    not by priority, which orders the gangs of one pool only.
    """
    shares = [
        has / may if may else float(has > 0)
        for part in gang.charge.parts()
        for has, may, wants in _kinds(gang.pool.part(part), part.entitled)
        if wants
    ]
    return max(shares, default=0.0), gang.tasks[0].since


def _kinds(pool: Pool, wanted: Vector) -> Iterator[tuple[int, int, int]]:
    return zip(pool.used, pool.entitlement, wanted, strict=True)


def _stuck(pool: Pool, queues: PoolQueues, preemption: bool) -> _Stuck | None:
    """Return the pool with its first gang where all of its first gangs are too large."""
    first, some = None, False
    for queue in queues.all:
        gang = queue.head()
        if gang is None:
            continue
        if gang.charge.slack is not None:
            if queue is queues.pending:  # admission moves it to its own queue; others may come behind it
                return None
            continue
        some = True
        if not _beyond_own_bounds(gang, preemption):
            if not _beyond_entitlement(gang):
                return None
            first = first or gang
    return _Stuck(pool, first) if some else None


def _beyond_entitlement(gang: Gang) -> bool:
    """Return whether a gang is more than its pool, or one above it, is entitled to in all."""
    return any(
        wants > may
        for part in gang.charge.parts()
        for pool in gang.pool.part(part).ancestors[:-1]
        for wants, may in zip(part.entitled, pool.entitlement, strict=True)
    )


def _beyond_own_bounds(gang: Gang, preemption: bool) -> bool:
    """Return whether a gang is more than its pool ever gives to controllers or non-preemptible tasks."""
    pool, charge = gang.pool, gang.charge
    bounds = (
        (charge.controller, pool.controller_limit),
        (charge.non_preemptible, pool.reservation if preemption else None),
    )
    return any(
        wants > most
        for amounts, bound in bounds
        if amounts is not None and bound is not None
        for wants, most in zip(amounts, bound, strict=True)
    )


def _fits_idle(gang: Gang) -> bool:
    """Return whether what nobody holds is enough for a gang, and the limits of its pools allow it."""
    for part in gang.charge.parts():
        root = gang.pool.part(part).ancestors[-1]
        if any(wants and has + wants > may for has, may, wants in _kinds(root, part.entitled)):
            return False
    return not any(
        wants and has + wants > most
        for pool in gang.pool.ancestors[:-1]
        for wants, has, most in zip(gang.charge.entitled, pool.used, pool.limit, strict=True)
    )


def _with(gang: Gang, counted: Counted) -> Iterator[tuple[Pool, Vector]]:
    """Iterate over the demand that counts where a gang does, besides what counts already."""
    for part in gang.charge.parts():
        pool = gang.pool.part(part)
        if pool in counted and part.firm is not None:
            yield pool, total((counted[pool], part.firm))

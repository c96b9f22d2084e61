"""Within a pool: waiting gangs replace preemptible tasks of lower priority.

A gang that only the entitlement keeps waiting may take tasks of its own leaf whose priority is lower: as many
as it needs, or none if those are not enough. Gangs come in the order of admission. The first gang of a queue
that cannot be served ends its queue, as it would block the others anyway. A pool that is below its
entitlement and waits for what others hold takes no tasks of its own: the policy across pools frees that.
See docs/behaviour/pools.md, Preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from peloton.model.amounts import amount_of
from peloton.model.ids import mesos_task_id
from peloton.model.resources import KINDS, MILLI
from resmgr.core.preemption.order import Gangs, VictimOrder
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.victim_selection import select
from resmgr.core.preemption.view import SAME_POOL, PoolView, View, Waiting
from resmgr.core.state.amounts import NOTHING, Charge, Vector, less
from resmgr.core.state.cooperative import Steps
from resmgr.core.state.pool import Pool

_COUNTED = ("", "slack ", "non-slack ")
_BOUNDLESS: Vector = (2**62,) * 4


class SamePoolPolicy:
    """Let gangs of higher priority replace tasks of their own pool."""

    name: ClassVar = SAME_POOL

    def __init__(self, order: VictimOrder | None = None) -> None:
        """Take gangs in an `order` that is plugged in; None: in that of `Gangs`."""
        self._order = order

    def applies_to(self, pool: PoolView) -> bool:
        """Return whether tasks of the pool may have to be taken now."""
        return self.name in pool.policies and any(
            _short(gang.charge, _room(pool)) for queue in pool.queues for gang in queue[:1]
        )

    def steps(self, view: View, now: float) -> Iterator[Victim | None]:
        """Iterate over the victims; None between two steps."""
        taken = Counter[str]()
        for pool in view.pools:
            if self.applies_to(pool):
                gangs = yield from Gangs.of(pool.candidates, self._order, now)
                frees = yield from _as_admission_counts(gangs.frees)
                if pool.budget is not None and taken[pool.path]:
                    pool = replace(pool, budget=pool.budget - taken[pool.path])
                for victim in _PoolCheck(pool, gangs, frees).victims():
                    if victim is not None:
                        taken[pool.path] += len(victim.runs)
                    yield victim


class _PoolCheck:
    """The check of one pool. Amounts are counted as in admission: total, slack and non-slack, 12 in all."""

    def __init__(self, pool: PoolView, gangs: Gangs, frees: NDArray[np.int64]) -> None:
        self._pool = pool
        self._gangs = gangs
        self._frees = frees
        self._present = np.ones(len(gangs), np.bool_)
        self._room = _room(pool)
        self._fixed = None if pool.fixed_room is None else [*pool.fixed_room]
        self._controller = None if pool.controller_room is None else [*pool.controller_room]
        self._budget = pool.budget

    def victims(self) -> Iterator[Victim | None]:
        for queue in self._pool.queues:
            for gang in queue:
                victims = yield from self._serve(gang)
                if victims is None:
                    break
                yield from victims
                yield None

    def _serve(self, gang: Waiting) -> Steps[list[Victim] | None]:
        """Return what the gang takes; None where it cannot be served."""
        charge = gang.charge
        if not (_fits(charge.non_preemptible, self._fixed) and _fits(charge.controller, self._controller)):
            return None
        requested = amounts_of(charge)
        need = [
            max(0, request - room) if request else 0
            for request, room in zip(requested, self._room, strict=True)
        ]
        lower = np.flatnonzero(self._present & (self._gangs.priority < gang.priority))
        yield
        if not self._enough(lower, need):
            return None
        chosen, enough = yield from select(self._frees, need, lower)
        size = int(self._gangs.size[chosen].sum())
        if not enough or (self._budget is not None and size > self._budget):
            return None
        victims = [self._victim(row, gang, need) for row in chosen]
        self._take(chosen, size, requested)
        _deduct(self._fixed, charge.non_preemptible)
        _deduct(self._controller, charge.controller)
        return victims

    def _enough(self, rows: NDArray[np.int64], need: Sequence[int]) -> bool:
        """Return whether all of those rows together free enough."""
        return all(
            int(self._frees[rows, side].sum()) >= amount for side, amount in enumerate(need) if amount > 0
        )

    def _take(self, rows: Sequence[int], size: int, requested: Sequence[int]) -> None:
        for row in rows:
            self._present[row] = False
            freed: list[int] = self._frees[row].tolist()
            self._room = [room + amount for room, amount in zip(self._room, freed, strict=True)]
        self._room = [room - amount for room, amount in zip(self._room, requested, strict=True)]
        if self._budget is not None:
            self._budget -= size

    def _victim(self, row: int, gang: Waiting, need: Sequence[int]) -> Victim:
        frees: list[int] = self._frees[row].tolist()
        needed = {side % 8: None for side, amount in enumerate(need) if amount > 0 and frees[side] > 0}
        sides = list(needed)
        short = ", ".join(
            f"{_COUNTED[side // 4]}{amount_of(amount / MILLI, KINDS[side % 4])} short"
            for side, amount in enumerate(need)
            if amount > 0
        )
        why = (
            f"{mesos_task_id(*gang.lead)} of priority {gang.priority} waits in {self._pool.path}, which is"
            f" at its entitlement{self._pool.hosts and f' on {self._pool.hosts}'} ({short});"
            f" this one has priority {self._gangs.priority[row]}"
        )
        path, freed = self._pool.path, self._gangs.frees[row].tolist()
        victim = self._gangs.victim(row, freed, sides, (path, path), SAME_POOL, why, self._pool.hosts)
        return replace(victim, lead=gang.lead)


def _as_admission_counts(frees: NDArray[np.int64]) -> Steps[NDArray[np.int64]]:
    """Return (n, 12): everything except the revocable cpu, then slack, then non-slack."""
    counted = np.empty((len(frees), 12), np.int64, order="F")
    for side in range(12):
        counted[:, side] = frees[:, side % 8]
        if 0 < side < 4:
            counted[:, side] += frees[:, side + 4]
        yield
    return counted


def amounts_of(charge: Charge) -> list[int]:
    """Return what a charge takes, counted as in admission: 12 amounts."""
    return [*charge.entitled, *(charge.slack or NOTHING), *(charge.firm or NOTHING)]


def _room(pool: PoolView) -> list[int]:
    firm = _BOUNDLESS if pool.firm_room is None else pool.firm_room
    return [*pool.room, *pool.slack_room, *firm]


def room_of(pool: Pool) -> list[int]:
    """Return what is left of a pool's entitlement, negative where it is over it: 12 amounts."""
    firm = pool.firm_entitlement
    left = _BOUNDLESS if firm is None else less(firm, (pool.firm(),))
    return [*less(pool.entitlement, (pool.used,)), *less(pool.slack_entitlement, (pool.slack,)), *left]


def _short(charge: Charge, room: Sequence[int]) -> bool:
    return any(request and request > has for request, has in zip(amounts_of(charge), room, strict=True))


def _fits(requested: Vector | None, room: Sequence[int] | None) -> bool:
    return (
        requested is None
        or room is None
        or all(request <= has for request, has in zip(requested, room, strict=True))
    )


def _deduct(room: list[int] | None, requested: Vector | None) -> None:
    if room is not None and requested is not None:
        room[:] = [has - request for has, request in zip(room, requested, strict=True)]

"""Within a pool: what waits takes the place of preemptible tasks of lower priority (behaviour 7.5).

The reference has no such rule. Here: a gang that nothing but the entitlement keeps waiting may take tasks of
its own leaf whose priority is lower, as many as it needs and none if those are not enough. Gangs come in the
order of admission, and the first of a queue that cannot be served ends its queue's turn, as it would block
the others there anyway. A pool that is below its entitlement and waits for what others hold takes nothing of
its own: that is for the rule between pools to free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from peloton.model.ids import mesos_task_id
from peloton.model.resources import KINDS, MILLI
from resmgr.core.cooperative import Steps
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.victim_selection import Gangs, cover
from resmgr.core.preemption.view import NOTHING, WITHIN, PoolView, View, Waiting
from resmgr.core.tasks import Charge, Vector

_COUNTED = ("", "slack ", "non-slack ")
_BOUNDLESS: Vector = (2**62,) * 4


class Within:
    name = WITHIN

    def concerns(self, pool: PoolView) -> bool:
        """Whether tasks of the pool may have to be taken now."""
        return self.name in pool.policies and any(
            _short(gang.charge, _room(pool)) for queue in pool.queues for gang in queue[:1]
        )

    def victims(self, view: View, now: float) -> list[Victim]:
        """All steps at once."""
        return [victim for victim in self.steps(view, now) if victim is not None]

    def steps(self, view: View, now: float) -> Iterator[Victim | None]:
        for pool in view.pools:
            if self.concerns(pool):
                gangs = yield from Gangs.of(pool.candidates)
                frees = yield from _as_admission_counts(gangs.frees)
                yield from _Turn(pool, gangs, frees).victims()


class _Turn:
    """One pool, while its gangs are served. Amounts are counted as admission does: of all, of slack, and of
    what is not slack; 12 in all."""

    def __init__(self, pool: PoolView, gangs: Gangs, frees: NDArray[np.int64]) -> None:
        self._pool = pool
        self._gangs = gangs
        self._frees = frees
        self._there = np.ones(len(gangs), np.bool_)
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
        """What it takes; None where it cannot be served."""
        charge = gang.charge
        if not (_fits(charge.non_preemptible, self._fixed) and _fits(charge.controller, self._controller)):
            return None
        asked = _asked(charge)
        need = [max(0, ask - room) if ask else 0 for ask, room in zip(asked, self._room, strict=True)]
        lower = np.flatnonzero(self._there & (self._gangs.priority < gang.priority))
        yield
        if not self._enough(lower, need):
            return None
        chosen, enough = yield from cover(self._frees, need, lower)
        size = int(self._gangs.size[chosen].sum())
        if not enough or (self._budget is not None and size > self._budget):
            return None
        victims = [self._victim(row, gang, need) for row in chosen]
        self._take(chosen, size, asked)
        _deduct(self._fixed, charge.non_preemptible)
        _deduct(self._controller, charge.controller)
        return victims

    def _enough(self, rows: NDArray[np.int64], need: Sequence[int]) -> bool:
        """Whether all of those together would do."""
        return all(
            int(self._frees[rows, side].sum()) >= amount for side, amount in enumerate(need) if amount > 0
        )

    def _take(self, rows: Sequence[int], size: int, asked: Sequence[int]) -> None:
        for row in rows:
            self._there[row] = False
            freed: list[int] = self._frees[row].tolist()
            self._room = [room + amount for room, amount in zip(self._room, freed, strict=True)]
        self._room = [room - amount for room, amount in zip(self._room, asked, strict=True)]
        if self._budget is not None:
            self._budget -= size

    def _victim(self, row: int, gang: Waiting, need: Sequence[int]) -> Victim:
        frees: list[int] = self._frees[row].tolist()
        needed = {side % 8: None for side, amount in enumerate(need) if amount > 0 and frees[side] > 0}
        sides = list(needed)
        short = ", ".join(
            f"{KINDS[side % 4]}: {_COUNTED[side // 4]}{amount / MILLI:g} short"
            for side, amount in enumerate(need)
            if amount > 0
        )
        why = (
            f"{mesos_task_id(*gang.lead)} of priority {gang.priority} waits in {self._pool.path}, which is"
            f" at its entitlement ({short}); this one has priority {self._gangs.priority[row]}"
        )
        path, freed = self._pool.path, self._gangs.frees[row].tolist()
        return self._gangs.victim(row, freed, sides, (path, path), WITHIN, why)


def _as_admission_counts(frees: NDArray[np.int64]) -> Steps[NDArray[np.int64]]:
    """(n, 12): all but the revocable cpu, then slack, then what is not slack."""
    counted = np.empty((len(frees), 12), np.int64, order="F")
    for side in range(12):
        counted[:, side] = frees[:, side % 8]
        if 0 < side < 4:
            counted[:, side] += frees[:, side + 4]
        yield
    return counted


def _asked(charge: Charge) -> list[int]:
    return [*charge.entitled, *(charge.slack or NOTHING), *(charge.firm or NOTHING)]


def _room(pool: PoolView) -> list[int]:
    firm = _BOUNDLESS if pool.firm_room is None else pool.firm_room
    return [*pool.room, *pool.slack_room, *firm]


def _short(charge: Charge, room: Sequence[int]) -> bool:
    return any(ask and ask > has for ask, has in zip(_asked(charge), room, strict=True))


def _fits(asked: Vector | None, room: Sequence[int] | None) -> bool:
    return asked is None or room is None or all(ask <= has for ask, has in zip(asked, room, strict=True))


def _deduct(room: list[int] | None, asked: Vector | None) -> None:
    if room is not None and asked is not None:
        room[:] = [has - ask for has, ask in zip(room, asked, strict=True)]

"""Within a pool: what waits takes the place of preemptible tasks of lower priority (behaviour 7.5).

The reference has no such rule. Here: a gang that nothing but the entitlement keeps waiting may take tasks of
its own leaf whose priority is lower, as many as it needs and none if those are not enough. Gangs come in the
order of admission, and the first of a queue that cannot be served ends its queue's turn, as it would block
the others there anyway. A pool that is below its entitlement and waits for what others hold takes nothing of
its own: that is for the rule between pools to free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peloton.model.ids import mesos_task_id
from peloton.model.resources import KINDS, MILLI
from resmgr.core.preemption.cover import Gangs, cover
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.view import NOTHING, WITHIN, PoolView, View, Waiting
from resmgr.core.tasks import Vector

_SLACK_CPU = 4


class Within:
    name = WITHIN

    def concerns(self, pool: PoolView) -> bool:
        """Whether tasks of the pool may have to be taken now."""
        return self.name in pool.policies and any(
            _short(gang, pool.room, pool.slack_room) for queue in pool.queues for gang in queue[:1]
        )

    def victims(self, view: View, now: float) -> list[Victim]:
        return [victim for pool in view.pools if self.concerns(pool) for victim in _Turn(pool).victims()]


class _Turn:
    """One pool, while its gangs are served."""

    def __init__(self, pool: PoolView) -> None:
        self._pool = pool
        self._gangs = Gangs.of(pool.candidates)
        self._frees = _as_admission_counts(self._gangs.frees)
        self._there = np.ones(len(self._gangs), np.bool_)
        self._room = [*pool.room, *pool.slack_room]
        self._fixed = None if pool.fixed_room is None else [*pool.fixed_room]
        self._controller = None if pool.controller_room is None else [*pool.controller_room]
        self._budget = pool.budget

    def victims(self) -> list[Victim]:
        found: list[Victim] = []
        for queue in self._pool.queues:
            for gang in queue:
                victims = self._serve(gang)
                if victims is None:
                    break
                found += victims
        return found

    def _serve(self, gang: Waiting) -> list[Victim] | None:
        """What it takes; None where it cannot be served."""
        charge = gang.charge
        if not (_fits(charge.non_preemptible, self._fixed) and _fits(charge.controller, self._controller)):
            return None
        asked = [*charge.entitled, *(charge.slack or NOTHING)]
        need = [max(0, ask - room) if ask else 0 for ask, room in zip(asked, self._room, strict=True)]
        lower = np.flatnonzero(self._there & (self._gangs.priority < gang.priority))
        chosen, enough = cover(self._frees, need, lower)
        size = int(self._gangs.size[chosen].sum())
        if not enough or (self._budget is not None and size > self._budget):
            return None
        victims = [self._victim(row, gang, need) for row in chosen]
        self._take(chosen, size, asked)
        _deduct(self._fixed, charge.non_preemptible)
        _deduct(self._controller, charge.controller)
        return victims

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
        sides = [side for side, amount in enumerate(need) if amount > 0 and frees[side] > 0]
        short = ", ".join(
            f"{KINDS[side % 4]}: {'slack ' if side >= 4 else ''}{amount / MILLI:g} short"
            for side, amount in enumerate(need)
            if amount > 0
        )
        why = (
            f"{mesos_task_id(*gang.lead)} of priority {gang.priority} waits in {self._pool.path}, which is"
            f" at its entitlement ({short}); this one has priority {self._gangs.priority[row]}"
        )
        path, freed = self._pool.path, self._gangs.frees[row].tolist()
        return Victim.of(self._gangs.runs(row), freed, sides, (path, path), WITHIN, why)


def _as_admission_counts(frees: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n, 8): all but the revocable cpu, then slack."""
    counted = frees.copy()
    counted[:, :4] += frees[:, 4:]
    counted[:, 0] -= frees[:, _SLACK_CPU]
    return counted


def _short(gang: Waiting, room: Vector, slack_room: Vector) -> bool:
    charge = gang.charge
    asked = (*charge.entitled, *(charge.slack or NOTHING))
    return any(ask and ask > has for ask, has in zip(asked, (*room, *slack_room), strict=True))


def _fits(asked: Vector | None, room: Sequence[int] | None) -> bool:
    return asked is None or room is None or all(ask <= has for ask, has in zip(asked, room, strict=True))


def _deduct(room: list[int] | None, asked: Vector | None) -> None:
    if room is not None and asked is not None:
        room[:] = [has - ask for has, ask in zip(room, asked, strict=True)]

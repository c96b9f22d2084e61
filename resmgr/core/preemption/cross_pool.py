"""Across pools: a leaf that stays over its entitlement frees the excess.

See docs/behaviour/pools.md, Preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import sub
from typing import ClassVar

import numpy as np

from peloton.model.amounts import amount
from peloton.model.plural import plural
from peloton.model.resources import MILLI
from resmgr.core.preemption.order import Gangs, VictimOrder
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.victim_selection import select
from resmgr.core.preemption.view import CROSS_POOL, SIDES, PoolView, View
from resmgr.core.state.amounts import Vector

_AT_ONCE = 500


class CrossPoolPolicy:
    """Take revocable tasks for slack excess, and other preemptible tasks for other excess."""

    name: ClassVar = CROSS_POOL

    def __init__(self, strikes: int = 5, order: VictimOrder | None = None) -> None:
        """Take tasks once `strikes` consecutive checks have found the leaf over its entitlement.

        They are taken in an `order` that is plugged in; None: in that of `Gangs`.
        """
        self.strikes = strikes
        self._order = order

    def applies_to(self, pool: PoolView) -> bool:
        """Return whether tasks of the pool may have to be taken now."""
        return self.name in pool.policies and pool.strikes >= self.strikes and any(pool.excess())

    def steps(self, view: View, now: float) -> Iterator[Victim | None]:
        """Iterate over the victims; None between two steps."""
        claims: dict[str, UnmetDemand] = {}
        taken = Counter[str]()
        for pool in view.pools:
            if not self.applies_to(pool):
                continue
            if pool.hosts not in claims:
                claims[pool.hosts] = UnmetDemand(view, pool.hosts)
            if pool.budget is not None and taken[pool.path]:
                pool = replace(pool, budget=pool.budget - taken[pool.path])
            for victim in _of_pool(pool, claims[pool.hosts], self._order, now):
                if victim is not None:
                    taken[pool.path] += len(victim.runs)
                yield victim


class UnmetDemand:
    """The unmet demand that pools are entitled to on some hosts; pools are served in the view's order."""

    def __init__(self, view: View, hosts: str = "") -> None:
        pools = [pool for pool in view.pools if pool.hosts == hosts]
        self._paths = [pool.path for pool in pools]
        self._claims = [pool.claim() for pool in pools]
        self._first = [0] * len(SIDES)

    def serve(self, sides: Sequence[int], frees: Sequence[int]) -> str:
        """Return the pool that gets what is freed; empty where no pool requests it."""
        for side in sides:
            pool = self._next(side)
            if pool is not None:
                self._claims[pool] = list(map(sub, self._claims[pool], frees))
                return self._paths[pool]
        return ""

    def _next(self, side: int) -> int | None:
        claims, at = self._claims, self._first[side]
        while at < len(claims) and claims[at][side] <= 0:
            at += 1
        self._first[side] = at
        return at if at < len(claims) else None


def _of_pool(
    pool: PoolView, claims: UnmetDemand, order: VictimOrder | None, now: float
) -> Iterator[Victim | None]:
    gangs = yield from Gangs.of(pool.candidates, order, now)
    excess = pool.excess()
    may = None if pool.largest is None else np.flatnonzero(gangs.size <= pool.largest)
    rows, _ = yield from select(gangs.frees, excess, may)
    if pool.budget is not None:
        rows = rows[: int(np.searchsorted(np.cumsum(gangs.size[rows]), pool.budget, side="right"))]
    needed = [side for side, amount in enumerate(excess) if amount > 0]
    reasons: dict[str, str] = {}
    for at in range(0, len(rows), _AT_ONCE):
        part = rows[at : at + _AT_ONCE]
        for row, frees in zip(part, gangs.frees[part].tolist(), strict=True):
            sides = [side for side in needed if frees[side] > 0]
            beneficiary = claims.serve(sides, frees)
            if beneficiary not in reasons:
                reasons[beneficiary] = _reason(pool, excess, beneficiary)
            pools, reason = (pool.path, beneficiary), reasons[beneficiary]
            yield gangs.victim(row, frees, sides, pools, CROSS_POOL, reason, pool.hosts)
        yield None


def _reason(pool: PoolView, excess: Sequence[int], beneficiary: str) -> str:
    over = [
        *_over(pool.allocation, pool.entitlement, excess[:4], ""),
        *_over(pool.slack_allocation, pool.slack_entitlement, excess[4:], "slack "),
    ]
    gets = f"{beneficiary} waits for its share" if beneficiary else "no pool waits for it now"
    return (
        f"{pool.path} was over its entitlement{pool.hosts and f' on {pool.hosts}'} in "
        f"{plural(pool.strikes, 'check')}"
        f" in a row ({', '.join(over)}); {gets}"
    )


def _over(held: Vector, bound: Vector, excess: Sequence[int], side: str) -> list[str]:
    return [
        f"{kind}: {side}allocation {amount(have / MILLI, kind)}"
        f" > {side}entitlement {amount(may / MILLI, kind)}"
        for kind, have, may, over in zip(SIDES, held, bound, excess, strict=False)
        if over > 0
    ]

"""Pools that have less than what is reserved for them, while a gang waits that would fit into it."""

from __future__ import annotations

from peloton.model.ids import PoolId
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang
from resmgr.core.state.pool import Pool


class Shortfalls:
    """Since when pools fall short of their reservations.

    That is short of what they are promised. It is right for seconds, while others are preempted for them;
    longer where the cluster has less than what is reserved, or others are not preemptible.
    """

    def __init__(self) -> None:
        self._since: dict[PoolId, float] = {}

    def look(self, scheduler: Scheduler, now: float) -> None:
        """Look at all pools with gangs in their queues. `now`: seconds of the monotonic clock."""
        pools = {pool.whole for pool in scheduler.pending.active}
        short = [pool.id for pool in pools if _owed(scheduler, pool)]
        self._since = {pool: self._since.get(pool, now) for pool in short}

    def seconds(self, pool: PoolId, now: float) -> float:
        """Return for how long a pool has been short; 0: it is not."""
        since = self._since.get(pool)
        return 0.0 if since is None else max(now - since, 0.0)


def _owed(scheduler: Scheduler, pool: Pool) -> bool:
    """Return whether the head of one of a leaf's queues would fit into the pool's reservation."""
    heads = (queue.head() for queues in scheduler.pending.of_whole(pool) for queue in queues.all)
    return any(_fits(gang, pool) for gang in heads if gang is not None)


def _fits(gang: Gang, pool: Pool) -> bool:
    """Return whether what a pool holds and a gang asks for is within the reservation.

    Controllers are not counted: they have a limit of their own.
    """
    if gang.charge.controller is not None:
        return False
    rows = zip(gang.charge.entitled, pool.used, pool.reservation, strict=True)
    asked = [(wanted, held, reserved) for wanted, held, reserved in rows if wanted]
    return bool(asked) and all(held + wanted <= reserved for wanted, held, reserved in asked)

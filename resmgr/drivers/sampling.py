"""Takes a sample of all pools and of the cluster each minute; looks at runs and at short pools in between."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from peloton.clock import NANOSECONDS, Clock
from peloton.model.ids import PoolId
from peloton.model.resources import KINDS
from peloton.waking import tick
from resmgr.core.monitoring.figures import (
    CLUSTER_SERIES,
    POOL_SERIES,
    cluster_sample,
    pool_figures,
    pool_samples,
)
from resmgr.core.monitoring.history import History, Samples
from resmgr.core.monitoring.shortfalls import Shortfalls
from resmgr.core.scheduler import Scheduler
from resmgr.drivers.stored_history import Scope, StoredHistory
from storage.interface import History as Blocks

POOL_COLUMNS = tuple(f"{name} {kind}" for name in POOL_SERIES for kind in KINDS)
CLUSTER_COLUMNS = (*(f"capacity {kind}" for kind in KINDS), *CLUSTER_SERIES)
CLUSTER = ""
"""The name of the cluster in its history."""
FIRST = 5.0
"""Seconds until the first sample of a term: the capacity is known by then."""
TICK = 1.0
"""Seconds between two looks at the counts of runs."""
RECENT_LOOKS = 10
"""Looks over which the present rates are taken."""


class Counts(NamedTuple):
    """How many runs had started and ended at a time of the monotonic clock, in seconds."""

    time: float
    started: int
    ended: int


class Sampler:
    """Keep the history of one term."""

    def __init__(self, scheduler: Scheduler, clock: Clock, blocks: Blocks | None = None) -> None:
        """Read the history of earlier terms from `blocks`, and store this one's; without, do neither."""
        self.pools = History(len(POOL_COLUMNS))
        self.cluster = History(len(CLUSTER_COLUMNS))
        scopes = Scope("pools", POOL_COLUMNS, self.pools), Scope("cluster", CLUSTER_COLUMNS, self.cluster)
        self._stored = None if blocks is None else StoredHistory(blocks, scopes)
        self._shortfalls = Shortfalls()
        self._scheduler = scheduler
        self._clock = clock
        self._last = self._counts()
        self._recent = deque([self._last], RECENT_LOOKS + 1)

    async def run(self) -> None:
        """Take samples until cancelled."""
        if self._stored is not None:
            await self._stored.restore(self._minute())
        await asyncio.sleep(FIRST)
        self.sample()
        while True:
            minute = self._minute()
            await tick(TICK)
            self.count()
            if self._minute() != minute:
                self.sample()
                if self._stored is not None:
                    await self._stored.write(self._minute())

    async def days(self, subject: str, days: int) -> Samples | None:
        """Return means of hours of a pool, or of the CLUSTER, over some days; None where none are stored.

        Raises PelotonError.
        """
        if self._stored is None:
            return None
        name = "cluster" if subject == CLUSTER else "pools"
        return await self._stored.days(name, subject, days, self._minute())

    def sample(self) -> None:
        """Take the sample of this minute."""
        then, self._last = self._last, self._counts()
        minute = self._minute()
        self.pools.sample(minute, pool_samples(pool_figures(self._scheduler)))
        sample = cluster_sample(self._scheduler, *_rates(then, self._last))
        self.cluster.sample(minute, {CLUSTER: sample})

    def count(self) -> None:
        """Look at the counts of runs, and at the pools that are short, once a second."""
        self._recent.append(self._counts())
        self._shortfalls.look(self._scheduler, self._clock.monotonic())

    def short_seconds(self, pool: PoolId) -> float:
        """Return for how long a pool has had less than its reservation while a gang waits for it."""
        return self._shortfalls.seconds(pool, self._clock.monotonic())

    def rates(self) -> tuple[float, float]:
        """Return how many runs a second started and ended in the last ten seconds."""
        return _rates(self._recent[0], self._counts())

    def _counts(self) -> Counts:
        registry = self._scheduler.registry
        return Counts(self._clock.monotonic(), registry.started, registry.ended)

    def _minute(self) -> int:
        return self._clock.wall() // (60 * NANOSECONDS)


def _rates(then: Counts, now: Counts) -> tuple[float, float]:
    seconds = max(now.time - then.time, 1.0)
    return (now.started - then.started) / seconds, (now.ended - then.ended) / seconds

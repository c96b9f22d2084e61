"""Takes a sample of all pools and of the cluster each minute."""

from __future__ import annotations

import asyncio

from peloton.clock import NANOSECONDS, Clock
from resmgr.core.monitoring.figures import (
    CLUSTER_SERIES,
    POOL_SERIES,
    cluster_sample,
    pool_figures,
    pool_samples,
)
from resmgr.core.monitoring.history import History
from resmgr.core.scheduler import Scheduler

CLUSTER = ""
"""The name of the cluster in its history."""
KINDS = 4
PERIOD = 60.0
FIRST = 5.0
"""Seconds until the first sample of a term: the capacity is known by then."""


class Sampler:
    """Keep the history of one term."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self.pools = History(KINDS * len(POOL_SERIES))
        self.cluster = History(KINDS + len(CLUSTER_SERIES))
        self._scheduler = scheduler
        self._clock = clock
        self._last = (clock.monotonic(), 0, 0)
        """When the runs that started and ended were counted last, and how many they were."""

    async def run(self) -> None:
        """Take samples until cancelled."""
        await asyncio.sleep(FIRST)
        while True:
            self.sample()
            await asyncio.sleep(PERIOD - self._clock.wall() / NANOSECONDS % PERIOD)

    def sample(self) -> None:
        """Take the sample of this minute."""
        scheduler, now = self._scheduler, self._clock.monotonic()
        registry = scheduler.registry
        then, started, ended = self._last
        seconds = max(now - then, 1.0)
        self._last = (now, registry.started, registry.ended)
        minute = self._clock.wall() // (60 * NANOSECONDS)
        self.pools.sample(minute, pool_samples(pool_figures(scheduler)))
        rates = (registry.started - started) / seconds, (registry.ended - ended) / seconds
        self.cluster.sample(minute, {CLUSTER: cluster_sample(scheduler, *rates)})

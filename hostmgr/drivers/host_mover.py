"""Moves hosts between host pools: drains them, changes their pool, and brings them up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.pools.moves import MoveRequest, Step
from hostmgr.core.pools.moving_hosts import MovingHosts, Scored
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.maintenance import Maintenance
from peloton.errors import PelotonError
from peloton.model.host_pool import PooledHost
from peloton.waking import until_tick

LOOK_SECONDS = 1.0
MOVING = Gauge("hostmgr_host_pool_moving", "Hosts on their way to each host pool.", ["pool"])
log = logging.getLogger(__name__)
Scores = Callable[[], Awaitable[Sequence[str]]]
"""Returns the hosts without tasks that are not preemptible, the cheapest to move first."""


class HostMover:
    """The moves of one term. What is to be moved is stored, so that the next leader goes on with it."""

    def __init__(
        self, pools: HostPoolManager, maintenance: Maintenance, moving: MovingHosts, scores: Scores
    ) -> None:
        self._pools = pools
        self._maintenance = maintenance
        self._moving = moving
        self._scores = scores
        self._wake = asyncio.Event()
        self._logged: dict[str, str] = {}
        """The last failure of each host."""

    async def move(self, request: MoveRequest) -> Sequence[str]:
        """Begin to move hosts until two pools have the numbers that are wanted; return the hosts.

        Raises InvalidArgument, NotFound, Refused, and Unavailable where resmgr or the store does not answer.
        """
        self._pools.pools.require(request.source)
        scored = await self._score(self._pools.known_hosts())
        chosen = await self._pools.begin_move(
            lambda pools: self._moving.choose(request, pools, self._pools.known_hosts(), scored),
            request.destination,
        )
        if chosen:
            log.info("to move from %s to %s: %s", request.source, request.destination, ", ".join(chosen))
        self._moving.scored(scored)
        self._wake.set()
        return chosen

    async def _score(self, hostnames: Collection[str]) -> Scored:
        """Return those of the hosts that have a score. Raises Unavailable."""
        before = self._moving.runs_on(hostnames)
        return self._moving.score(before, await self._scores())

    async def run(self) -> NoReturn:
        """Take the next step of each host that is being moved, for ever."""
        while True:
            await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(until_tick(LOOK_SECONDS)):
                    await self._wake.wait()
            self._wake.clear()

    async def step(self) -> None:
        """Take the next step of each host that is being moved. One that fails waits for the next time."""
        moving = self._pools.pools.moving()
        await self._score_first(self._moving.begin(moving, asyncio.get_running_loop().time()))
        for host in moving:
            try:
                await self._advance(host)
                self._logged.pop(host.hostname, None)
            except PelotonError as error:
                if self._logged.get(host.hostname) != str(error):
                    log.warning("%s waits on its way to %s: %s", host.hostname, host.desired, error)
                    self._logged[host.hostname] = str(error)
        self._measure()

    async def _score_first(self, hostnames: Collection[str]) -> None:
        if not hostnames:
            return
        try:
            self._moving.scored(await self._score(hostnames))
        except PelotonError as error:
            self._moving.not_scored(str(error))

    async def _advance(self, host: PooledHost) -> None:
        step = self._moving.next(host)
        if step is Step.DRAIN:
            await self._maintenance.start([host.hostname])
        elif step is Step.CHANGE_POOL:
            await self._pools.arrive(host.hostname)
        elif step is Step.BRING_UP:
            await self._maintenance.complete([host.hostname])
        elif step is Step.FINISH:
            await self._pools.finish_move(host.hostname)

    def _measure(self) -> None:
        MOVING.clear()
        for host in self._pools.pools.moving():
            MOVING.labels(host.desired).inc()

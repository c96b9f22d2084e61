"""Moves hosts between host pools: drains them, changes their pool, and brings them up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.mover import HostFacts, MoveRequest, Step, next_step, plan_move
from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.maintenance import Maintenance
from peloton.errors import PelotonError
from peloton.model.host_pool import PooledHost
from peloton.model.states import HostState

LOOK_SECONDS = 1.0
MOVING = Gauge("hostmgr_host_pool_moving", "Hosts on their way to each host pool.", ["pool"])
log = logging.getLogger(__name__)
Scores = Callable[[], Awaitable[Sequence[str]]]
"""Returns the hosts without tasks that are not preemptible, the cheapest to move first."""


class HostMover:
    """The moves of one term. What is to be moved is stored, so that the next leader goes on with it."""

    def __init__(
        self, pools: HostPoolManager, maintenance: Maintenance, cluster: Cluster, scores: Scores
    ) -> None:
        self._pools = pools
        self._maintenance = maintenance
        self._cluster = cluster
        self._scores = scores
        self._wake = asyncio.Event()
        self._logged: dict[str, str] = {}
        """The last failure of each host."""

    async def move(self, request: MoveRequest) -> Sequence[str]:
        """Begin to move hosts until two pools have the numbers that are wanted; return the hosts.

        Raises InvalidArgument, NotFound, Refused, and Unavailable where resmgr or the store does not answer.
        """
        self._pools.pools.require(request.source)
        before = {name: self._maintenance.runs_on(name) for name in self._pools.known_hosts()}
        by_cost = await self._scores()
        chosen = await self._pools.begin_move(
            lambda pools: plan_move(
                request,
                pools,
                self._facts(),
                # What began to run meanwhile has not been counted.
                [name for name in by_cost if before.get(name) == self._maintenance.runs_on(name)],
            ),
            request.destination,
        )
        if chosen:
            log.info("to move from %s to %s: %s", request.source, request.destination, ", ".join(chosen))
        self._wake.set()
        return chosen

    def _facts(self) -> dict[str, HostFacts]:
        registered = {agent.hostname for agent in self._cluster.agents.values()}
        return {
            name: HostFacts(self._state(name)[0], name in registered, bool(self._maintenance.runs_on(name)))
            for name in self._pools.known_hosts()
        }

    def _state(self, hostname: str) -> tuple[HostState, HostState]:
        """Return state and goal of a host in maintenance."""
        record = self._maintenance.records.get(hostname)
        return (HostState.UP, HostState.UP) if record is None else (record.state, record.goal)

    async def run(self) -> NoReturn:
        """Take the next step of each host that is being moved, for ever."""
        while True:
            if self._pools.enabled:
                await self.step()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._wake.wait()
            self._wake.clear()

    async def step(self) -> None:
        """Take the next step of each host that is being moved. One that fails waits for the next time."""
        for host in self._pools.pools.moving():
            try:
                await self._advance(host)
                self._logged.pop(host.hostname, None)
            except PelotonError as error:
                if self._logged.get(host.hostname) != str(error):
                    log.warning("%s waits on its way to %s: %s", host.hostname, host.desired, error)
                    self._logged[host.hostname] = str(error)
        self._measure()

    async def _advance(self, host: PooledHost) -> None:
        step = next_step(host, *self._state(host.hostname))
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

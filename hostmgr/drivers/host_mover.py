"""Moves hosts between host pools: drains them, changes their pool, and brings them up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.mover import HostFacts, MoveRequest, Step, next_step, plan_move
from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.maintenance import Maintenance
from peloton.errors import PelotonError, Refused
from peloton.model.host_pool import PooledHost
from peloton.model.ids import MesosTaskId
from peloton.model.states import HostState

LOOK_SECONDS = 1.0
SCORE_SECONDS = 10.0
"""Between two questions for scores, which are answered by a look at all tasks."""
MOVING = Gauge("hostmgr_host_pool_moving", "Hosts on their way to each host pool.", ["pool"])
NOT_PREEMPTIBLE = "a task there is not preemptible, or has just been launched"
log = logging.getLogger(__name__)
Scores = Callable[[], Awaitable[Sequence[str]]]
"""Returns the hosts without tasks that are not preemptible, the cheapest to move first."""


class HostMover:
    """The moves of one term. What is to be moved is stored, so that the next leader goes on with it."""

    def __init__(
        self,
        pools: HostPoolManager,
        maintenance: Maintenance,
        cluster: Cluster,
        scores: Scores,
        score_seconds: float = SCORE_SECONDS,
    ) -> None:
        """Ask for scores every `score_seconds` while hosts that have been chosen cannot be drained."""
        self._pools = pools
        self._maintenance = maintenance
        self._cluster = cluster
        self._scores = scores
        self._score_seconds = score_seconds
        self._score_at = 0.0
        """When to ask for scores again, on the loop's clock."""
        self._scored: Mapping[str, Sequence[MesosTaskId]] = {}
        """The chosen hosts that could be drained when scores were asked for, with their runs."""
        self._refusal = NOT_PREEMPTIBLE
        """Why the other chosen hosts could not."""
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
            lambda pools: plan_move(request, pools, self._facts(), self._movable(scored)),
            request.destination,
        )
        if chosen:
            log.info("to move from %s to %s: %s", request.source, request.destination, ", ".join(chosen))
        self._scored, self._refusal = scored, NOT_PREEMPTIBLE
        self._wake.set()
        return chosen

    async def _score(self, hostnames: Collection[str]) -> Mapping[str, Sequence[MesosTaskId]]:
        """Return those of the hosts without tasks that are not preemptible, the cheapest to move first.

        Each comes with the runs that were known there before. Raises Unavailable.
        """
        before = {name: self._maintenance.runs_on(name) for name in hostnames}
        return {name: before[name] for name in await self._scores() if name in before}

    def _movable(self, scored: Mapping[str, Sequence[MesosTaskId]]) -> list[str]:
        """Return the hosts where nothing was launched since: what began to run has not been counted."""
        return [name for name, runs in scored.items() if runs == self._maintenance.runs_on(name)]

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
        moving = self._pools.pools.moving()
        to_drain = self._to_drain(moving)
        await self._score_to_drain(to_drain)
        for host in moving:
            try:
                if host.hostname in to_drain and host.hostname not in self._movable(self._scored):
                    raise Refused(self._refusal)
                await self._advance(host)
                self._logged.pop(host.hostname, None)
            except PelotonError as error:
                if self._logged.get(host.hostname) != str(error):
                    log.warning("%s waits on its way to %s: %s", host.hostname, host.desired, error)
                    self._logged[host.hostname] = str(error)
        self._measure()

    async def _score_to_drain(self, hostnames: Collection[str]) -> None:
        """Find out which of the chosen hosts may be drained now.

        A task that is not preemptible may have come since they were chosen, as by the leader before this one.
        """
        now = asyncio.get_running_loop().time()
        if not hostnames or now < self._score_at:
            return
        self._score_at = now + self._score_seconds
        try:
            self._scored, self._refusal = await self._score(hostnames), NOT_PREEMPTIBLE
        except PelotonError as error:
            self._scored, self._refusal = {}, f"its tasks are not known: {error}"

    def _to_drain(self, moving: Iterable[PooledHost]) -> set[str]:
        """Return the hosts with an agent that are to be drained."""
        names = {each.hostname for each in moving if self._step(each) is Step.DRAIN}
        return names and names & {agent.hostname for agent in self._cluster.agents.values()}

    def _step(self, host: PooledHost) -> Step:
        return next_step(host, *self._state(host.hostname))

    async def _advance(self, host: PooledHost) -> None:
        step = self._step(host)
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

"""Host pools of one term: changes are stored first, then take effect at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.pools.pooled_hosts import PooledHosts
from hostmgr.core.state.host_pools import HostPools
from hostmgr.drivers.history import HostHistory
from peloton.errors import Unavailable
from peloton.model.host_pool import HostPoolChange
from peloton.model.plural import plural
from peloton.model.resources import KINDS, MILLI, Resources
from peloton.waking import tick
from storage import interface as storage

LOOK_SECONDS = 1.0
POOL_HOSTS = Gauge("hostmgr_host_pool_hosts", "Registered agents of each host pool.", ["pool"])
POOL_CAPACITY = Gauge(
    "hostmgr_host_pool_capacity", "Resources of the agents of each host pool.", ["pool", "kind"]
)
POOL_ALLOCATION = Gauge(
    "hostmgr_host_pool_allocation", "Resources of each host pool that tasks have.", ["pool", "kind"]
)
log = logging.getLogger(__name__)


class HostPoolManager:
    """The host pools, stored and in effect. They are managed whether tasks are confined to them or not."""

    def __init__(
        self,
        framework: str,
        store: storage.HostPools,
        hosts: PooledHosts,
        now: Callable[[], float],
        history: HostHistory | None = None,
    ) -> None:
        """Store rows under the name of the framework."""
        self._framework = framework
        self._store = store
        self.hosts = hosts
        self.pools = hosts.pools
        self._now = now
        self._history = history
        self._warned: Sequence[str] = ()
        self._lock = asyncio.Lock()
        self._uncertain = True
        """Whether the store may differ from `pools`: at first, and after a write with an unknown outcome."""
        self._measured: object = None
        """The map of agents that the metrics were taken from."""

    # Queries.

    def members(self) -> Mapping[str, list[str]]:
        """Return the hosts of each pool. Raises Unavailable before the agents are known."""
        return self.pools.members(self.known_hosts())

    def known_hosts(self) -> set[str]:
        """Return the hosts that there are, as `PooledHosts.known_hosts` does. Raises Unavailable."""
        return self.hosts.known_hosts(self._now())

    # Changes. Each raises Unavailable where the store does not answer.

    async def load(self) -> None:
        """Read the stored pools, and repair what a broken write left. Raises Unavailable."""
        async with self._lock:
            await self._reload()

    async def create(self, name: str) -> None:
        """Add an empty pool. Raises InvalidArgument, AlreadyExists."""
        await self._change(lambda pools: pools.plan_create(name))
        log.info("host pool %s is created", name)

    async def delete(self, name: str) -> None:
        """Delete a pool; its hosts go to `default`. Raises InvalidArgument, NotFound."""
        moved = await self._change(lambda pools: pools.plan_delete(name))
        log.info("host pool %s is deleted; %s to default", name, plural(len(moved), "host goes", "hosts go"))

    async def change(self, hostname: str, source: str, destination: str) -> None:
        """Put a host in another pool at once; an empty source is not compared.

        Raises InvalidArgument, NotFound, Refused.
        """
        known = self.known_hosts()
        await self._change(lambda pools: pools.plan_change(hostname, source, destination, known))
        log.info("host %s is in host pool %s", hostname, destination)

    async def begin_move(
        self, choose: Callable[[HostPools], Sequence[str]], destination: str
    ) -> Sequence[str]:
        """Store that the chosen hosts are being moved; return them. Raises what `choose` raises."""
        chosen: Sequence[str] = ()

        def plan(pools: HostPools) -> HostPoolChange:
            nonlocal chosen
            chosen = choose(pools)
            return pools.plan_move(chosen, destination)

        await self._change(plan)
        return chosen

    async def arrive(self, hostname: str) -> None:
        """Put a host that is being moved in its new pool."""
        await self._change(lambda pools: pools.plan_arrival(hostname))
        log.info("host %s is in host pool %s", hostname, self.hosts.pool_of(hostname))

    async def finish_move(self, hostname: str) -> None:
        """End the move of a host that is up in its new pool."""
        await self._change(lambda pools: pools.plan_finish(hostname))
        log.info("host %s is up in host pool %s", hostname, self.hosts.pool_of(hostname))

    async def leave(self, hostname: str) -> None:
        """Forget the pool of a host that is gone for good."""
        if hostname in self.pools.stored_hosts():
            await self._change(lambda pools: pools.plan_leave(hostname))
            log.info("host %s is in no host pool", hostname)

    async def _change(self, plan: Callable[[HostPools], HostPoolChange]) -> list[str]:
        """Store a change and carry it out; return the hosts that are in another pool now.

        It goes on where the caller is cancelled, so that the pools in memory do not fall behind the store.
        """
        return await asyncio.shield(asyncio.ensure_future(self._changed(plan)))

    async def _changed(self, plan: Callable[[HostPools], HostPoolChange]) -> list[str]:
        async with self._lock:
            if self._uncertain:
                await self._reload()
            change = plan(self.pools)
            if not change:
                return []
            self._uncertain = True
            await self._store.write(self._framework, change)
            self._uncertain = False
            self._measured = None
            changed = self.hosts.apply(change)
            if self._history is not None:
                for name, before, after in changed:
                    self._history.note_pool(name, before, after)
            return [name for name, _, _ in changed]

    async def _reload(self) -> None:
        left_over = self.hosts.replace(await self._store.all(self._framework))
        self._measured = None
        if left_over:
            await self._store.write(self._framework, left_over)
        self._uncertain = False

    # Supervision.

    async def run(self) -> NoReturn:
        """Keep metrics up to date, and read the pools again after a write with an unknown outcome."""
        while True:
            await self._look()
            await tick(LOOK_SECONDS)

    async def _look(self) -> None:
        if self._uncertain:
            try:
                await self.load()
            except Unavailable as error:
                log.warning("host pools may have changed in the store: %s", error)
        agents = self.hosts.agents
        if agents is not None and self._measured is not agents:
            self._measured = agents
            self._measure()
            self._warn()

    def _warn(self) -> None:
        """Log which kinds of jobs have no place, when they change."""
        lacking = self.hosts.without_hosts()
        if lacking and lacking != self._warned:
            log.warning("host pools are in use, and some jobs have no place: %s", "; ".join(lacking))
        self._warned = lacking

    def _measure(self) -> None:
        for gauge in (POOL_HOSTS, POOL_CAPACITY, POOL_ALLOCATION):
            gauge.clear()
        for name, (agents, capacity) in self.hosts.capacities().items():
            POOL_HOSTS.labels(name).set(agents)
            _set(POOL_CAPACITY, name, capacity.total)
            _set(POOL_ALLOCATION, name, capacity.allocated)


def _set(gauge: Gauge, pool: str, amounts: Resources) -> None:
    for kind, amount in zip(KINDS, amounts.values(), strict=True):
        gauge.labels(pool, kind).set(amount / MILLI)

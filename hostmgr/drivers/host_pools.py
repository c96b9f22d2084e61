"""Host pools of one term: changes are stored first, then take effect at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from prometheus_client import Gauge

from hostmgr.core.capacity import Capacity
from hostmgr.core.hosts import Hosts
from hostmgr.core.pools import HostPools
from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.history import HostHistory
from hostmgr.drivers.maintenance import Maintenance
from peloton.errors import Refused, Unavailable
from peloton.model.host_pool import HostPoolChange
from peloton.model.resources import KINDS, MILLI, Resources
from storage import interface as storage

LOOK_SECONDS = 1.0
POOL_HOSTS = Gauge("hostmgr_host_pool_hosts", "Registered agents of each host pool.", ["pool"])
POOL_CAPACITY = Gauge(
    "hostmgr_host_pool_capacity", "Resources of the agents of each host pool.", ["pool", "kind"]
)
POOL_ALLOCATION = Gauge(
    "hostmgr_host_pool_allocation", "Resources of each host pool that tasks have.", ["pool", "kind"]
)
OFF = "host pools are off: set enable_host_pool of hostmgr to true to use them"
log = logging.getLogger(__name__)


class HostPoolManager:
    """The host pools, stored and in effect. Without pools every request is refused."""

    def __init__(
        self,
        framework: str,
        store: storage.HostPools,
        pools: HostPools | None,
        hosts: Hosts,
        cluster: Cluster,
        maintenance: Maintenance,
        history: HostHistory | None = None,
    ) -> None:
        """Store rows under the name of the framework. `pools` is None where host pools are off."""
        self._framework = framework
        self._store = store
        self._pools = pools
        self._hosts = hosts
        self._cluster = cluster
        self._maintenance = maintenance
        self._history = history
        self._lock = asyncio.Lock()
        self._uncertain = True
        """Whether the store may differ from `pools`: at first, and after a write with an unknown outcome."""
        self._measured: object = None
        """The map of agents that the metrics were taken from."""

    # Queries.

    @property
    def enabled(self) -> bool:
        """Return whether host pools are on."""
        return self._pools is not None

    @property
    def pools(self) -> HostPools:
        """Return the pools. Raises Refused where host pools are off."""
        if self._pools is None:
            raise Refused(OFF)
        return self._pools

    def members(self) -> Mapping[str, list[str]]:
        """Return the hosts of each pool. Raises Refused, and Unavailable before the agents are known."""
        return self.pools.members(self.known_hosts())

    def pool_of(self, hostname: str) -> str:
        """Return the pool of a host; empty where host pools are off."""
        return "" if self._pools is None else self._pools.pool_of(hostname)

    def destination_of(self, hostname: str) -> str:
        """Return the pool in which a host is or is to be; empty where host pools are off."""
        return "" if self._pools is None else self._pools.destination_of(hostname)

    def capacities(self) -> Mapping[str, tuple[int, Capacity]]:
        """Return the number of agents and the sums over them by pool. Raises as `members` does."""
        pools = self.pools
        self.known_hosts()
        return self._hosts.capacities(pools)

    def known_hosts(self) -> set[str]:
        """Return the hosts that are registered, in maintenance, or in another pool than `default`.

        Raises Unavailable before the agents are known.
        """
        if not self._cluster.known:
            raise Unavailable(self._cluster.unhealthy)
        hosts = {agent.hostname for agent in self._cluster.agents.values()}
        hosts.update(record.hostname for record in self._maintenance.listed())
        if self._pools is not None:
            hosts.update(self._pools.stored_hosts())
        return hosts

    # Changes. Each raises Refused where host pools are off, and Unavailable where the store does not answer.

    async def load(self) -> None:
        """Read the stored pools, and repair what a broken write left. Raises Unavailable."""
        if self._pools is not None:
            async with self._lock:
                await self._reload()

    async def create(self, name: str) -> None:
        """Add an empty pool. Raises InvalidArgument, AlreadyExists."""
        await self._change(lambda pools: pools.plan_create(name))
        log.info("host pool %s is created", name)

    async def delete(self, name: str) -> None:
        """Delete a pool; its hosts go to `default`. Raises InvalidArgument, NotFound."""
        moved = await self._change(lambda pools: pools.plan_delete(name))
        log.info("host pool %s is deleted; %d hosts go to default", name, len(moved))

    async def change(self, hostname: str, source: str, destination: str) -> None:
        """Put a host in another pool at once; an empty source is not compared.

        Raises InvalidArgument, NotFound, Refused.
        """
        known = self.known_hosts() if self.enabled else set()
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
        log.info("host %s is in host pool %s", hostname, self.pool_of(hostname))

    async def finish_move(self, hostname: str) -> None:
        """End the move of a host that is up in its new pool."""
        await self._change(lambda pools: pools.plan_finish(hostname))
        log.info("host %s is up in host pool %s", hostname, self.pool_of(hostname))

    async def _change(self, plan: Callable[[HostPools], HostPoolChange]) -> list[str]:
        """Store a change and carry it out; return the hosts that are in another pool now.

        It goes on where the caller is cancelled, so that the pools in memory do not fall behind the store.
        """
        return await asyncio.shield(asyncio.ensure_future(self._changed(self.pools, plan)))

    async def _changed(self, pools: HostPools, plan: Callable[[HostPools], HostPoolChange]) -> list[str]:
        async with self._lock:
            if self._uncertain:
                await self._reload()
            change = plan(pools)
            if not change:
                return []
            self._uncertain = True
            await self._store.write(self._framework, change)
            self._uncertain = False
            touched = {*change.forgotten, *(host.hostname for host in change.placed)}
            before = {name: pools.pool_of(name) for name in touched}
            changed = self._took_effect(pools.apply(change))
            if self._history is not None:
                for name in changed:
                    self._history.note_pool(name, before.get(name, ""), pools.pool_of(name))
            return changed

    async def _reload(self) -> None:
        pools = self.pools
        before = {host: pools.pool_of(host) for host in self._hosts.table.hostnames if host}
        left_over = pools.replace(await self._store.all(self._framework))
        self._took_effect(host for host, pool in before.items() if pool != pools.pool_of(host))
        if left_over:
            await self._store.write(self._framework, left_over)
        self._uncertain = False

    def _took_effect(self, hostnames: Iterable[str]) -> list[str]:
        """Let constraints see the pools of hosts, and end claims that were made by their former pools."""
        changed = list(hostnames)
        self._hosts.change_pools(changed)
        self._measured = None
        return changed

    # Supervision.

    async def run(self) -> NoReturn:
        """Keep metrics up to date, and read the pools again after a write with an unknown outcome."""
        while True:
            if self._pools is not None:
                await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        if self._uncertain:
            try:
                await self.load()
            except Unavailable as error:
                log.warning("host pools may have changed in the store: %s", error)
        if self._cluster.known and self._measured is not self._cluster.agents:
            self._measured = self._cluster.agents
            self._measure()

    def _measure(self) -> None:
        for gauge in (POOL_HOSTS, POOL_CAPACITY, POOL_ALLOCATION):
            gauge.clear()
        for name, (agents, capacity) in self.capacities().items():
            POOL_HOSTS.labels(name).set(agents)
            _set(POOL_CAPACITY, name, capacity.total)
            _set(POOL_ALLOCATION, name, capacity.allocated)


def _set(gauge: Gauge, pool: str, amounts: Resources) -> None:
    for kind, amount in zip(KINDS, amounts.values(), strict=True):
        gauge.labels(pool, kind).set(amount / MILLI)

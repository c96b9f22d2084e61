"""Host pools over a store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from hostmgr.core.agents.maintained_hosts import MaintainedHosts
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.pools.pooled_hosts import PooledHosts
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_pools import HostPools
from hostmgr.core.state.table import HostTable
from hostmgr.drivers.host_pools import HostPoolManager
from peloton.errors import Unavailable
from peloton.model.host import HostInfo
from peloton.model.host_pool import HostPoolChange, PooledHost, StoredHostPools
from tests.unit.hostmgr.sight import Shown


class PoolStore:
    """The port `storage.interface.HostPools` for one framework."""

    def __init__(self) -> None:
        self.pools: set[str] = set()
        self.hosts: dict[str, PooledHost] = {}
        self.failures: list[float] = []
        """For each of the next writes, the share of its rows that is written before it fails."""

    async def write(self, framework: str, change: HostPoolChange) -> None:
        rows = [
            *(("create", each) for each in change.created),
            *(("delete", each) for each in change.deleted),
            *(("place", each) for each in change.placed),
            *(("forget", each) for each in change.forgotten),
        ]
        share = self.failures.pop(0) if self.failures else None
        done = len(rows) if share is None else int(share * len(rows))
        for kind, value in rows[:done]:
            self._write(kind, value)
        if share is not None:
            raise Unavailable("the store is away")

    def _write(self, kind: str, value: Any) -> None:
        if kind == "create":
            self.pools.add(value)
        elif kind == "delete":
            self.pools.discard(value)
        elif kind == "place":
            self.hosts[value.hostname] = value
        else:
            self.hosts.pop(value, None)

    async def all(self, framework: str) -> StoredHostPools:
        return StoredHostPools(tuple(sorted(self.pools)), tuple(self.hosts.values()))


class World:
    """A term of hostmgr as far as host pools are concerned."""

    def __init__(self, store: PoolStore | None = None, enabled: bool = True) -> None:
        self.store = store or PoolStore()
        self.core = HostPools() if enabled else None
        self.hosts = Hosts(HostTable(pool_of=self.core.pool_of if self.core else None))
        self.cluster = Shown()
        self.maintained: list[HostInfo] = []
        self.maintenance = SimpleNamespace(listed=lambda now=0.0: self.maintained)
        maintained = cast(MaintainedHosts, self.maintenance)
        self.pooled = PooledHosts(self.core, self.hosts, cast(Any, self.cluster), maintained)
        self.manager = HostPoolManager("f", self.store, self.pooled, lambda: 0.0)

    def register(self, agents: Sequence[Agent]) -> None:
        """Replace the map of agents."""
        self.hosts.set_agents(agents)
        self.cluster.agents = {agent.id: agent for agent in agents}

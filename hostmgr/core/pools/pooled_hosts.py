"""The host pools with the hosts there are: what is shown of them, and what follows from their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hostmgr.core.agents.maintained_hosts import MaintainedHosts
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.state.capacity import Capacity
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_pools import HostPools
from peloton.errors import Unavailable
from peloton.model.host_pool import KINDS_OF_JOBS, HostPoolChange, StoredHostPools


class PooledHosts:
    """The pools of all hosts. They are managed whether tasks are confined to them or not."""

    def __init__(
        self, pools: HostPools | None, hosts: Hosts, sight: ClusterSight, maintained: MaintainedHosts
    ) -> None:
        """`pools` are those that the table of hosts shows; None where tasks are not confined to pools."""
        self.in_use = pools is not None
        """Whether tasks are confined to the hosts of pools."""
        self.pools = HostPools() if pools is None else pools
        self._hosts = hosts
        self._sight = sight
        self._maintained = maintained

    # Queries.

    def known_hosts(self, now: float) -> set[str]:
        """Return the hosts that are registered, in maintenance, or in another pool than `default`.

        Raises Unavailable before the agents are known.
        """
        self._require_agents()
        found = self._sight.hostnames
        found.update(record.hostname for record in self._maintained.listed(now))
        found.update(self.pools.stored_hosts())
        return found

    def pool_of(self, hostname: str) -> str:
        """Return the pool of a host; empty where there are none but `default`, and they are not in use."""
        return self.pools.pool_of(hostname) if self._are_shown else ""

    def destination_of(self, hostname: str) -> str:
        """Return the pool in which a host is or is to be; empty as that of `pool_of`."""
        return self.pools.destination_of(hostname) if self._are_shown else ""

    @property
    def _are_shown(self) -> bool:
        return self.in_use or self.pools.any

    @property
    def agents(self) -> Mapping[str, Agent] | None:
        """Return the agents as last read; None before they are known."""
        return self._sight.agents if self._sight.known else None

    def without_hosts(self) -> Sequence[str]:
        """Return the kinds of jobs that have no place where tasks are confined to pools, with the reasons."""
        if not self.in_use:
            return ()
        here = self._sight.hostnames
        members = self.pools.members(here)
        return [
            f"{jobs} run on hosts of {pool}, which {'has none' if pool in members else 'does not exist'}"
            for pool, jobs in KINDS_OF_JOBS.items()
            if here.isdisjoint(members.get(pool, ()))
        ]

    def capacities(self) -> Mapping[str, tuple[int, Capacity]]:
        """Return the number of agents and the sums over them by pool.

        Raises Unavailable before the agents are known.
        """
        self._require_agents()
        return self._hosts.agents.capacities(self.pools)

    def _require_agents(self) -> None:
        if not self._sight.known:
            raise Unavailable(self._sight.unhealthy)

    # Changes, once they are stored.

    def apply(self, change: HostPoolChange) -> Sequence[tuple[str, str, str]]:
        """Carry out a change; return the hosts in another pool now, each with its pools before and after."""
        pools = self.pools
        touched = {*change.forgotten, *(host.hostname for host in change.placed)}
        before = {name: pools.pool_of(name) for name in touched}
        changed = pools.apply(change)
        self._take_effect(changed)
        return [(name, before[name], pools.pool_of(name)) for name in changed]

    def replace(self, stored: StoredHostPools) -> HostPoolChange:
        """Take over what is stored; return the change that repairs what a broken write left."""
        before = {name: self.pools.pool_of(name) for name in self._hosts.table.hostnames if name}
        left_over = self.pools.replace(stored)
        self._take_effect(name for name, pool in before.items() if pool != self.pools.pool_of(name))
        return left_over

    def _take_effect(self, changed: Iterable[str]) -> None:
        """Let constraints see the pools of hosts, and end claims that were made by their former pools."""
        if self.in_use:
            self._hosts.change_pools(list(changed))

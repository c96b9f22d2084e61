"""Host pools: which pools there are, and the pool of each host (docs/behaviour/host-pools.md).

A change is planned without effect; the driver stores it and then applies it. The pool `default` and the hosts
in it have no rows, so that each host is in exactly one pool whatever comes and goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused
from peloton.model.host_pool import DEFAULT, HostPoolChange, PooledHost, StoredHostPools

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
NO_POOLS = StoredHostPools()
PoolOf = Callable[[str], str]
"""Returns the pool of a host by its name."""


class HostPools:
    """The pools, and the pool of each host."""

    def __init__(self, stored: StoredHostPools = NO_POOLS) -> None:
        self._pools: set[str] = set()
        self._hosts: dict[str, PooledHost] = {}
        """Hosts that are not in `default`, or are being moved."""
        self.replace(stored)

    def replace(self, stored: StoredHostPools) -> HostPoolChange:
        """Take over what is stored; return the change that removes what a broken write left.

        A host whose pool is not stored is in `default`.
        """
        self._pools = {DEFAULT, *stored.pools}
        self._hosts = {}
        placed, forgotten = [], []
        for host in stored.hosts:
            known = self._repaired(host)
            if known is None:
                forgotten.append(host.hostname)
                continue
            self._hosts[host.hostname] = known
            if known != host:
                placed.append(known)
        return HostPoolChange(placed=tuple(placed), forgotten=tuple(forgotten))

    def _repaired(self, host: PooledHost) -> PooledHost | None:
        """Return the row with pools that exist; None where no row is needed."""
        pool = host.pool if host.pool in self._pools else DEFAULT
        desired = host.desired if not host.desired or host.desired in self._pools else DEFAULT
        return _row(host.hostname, pool, desired)

    # Queries.

    def names(self) -> list[str]:
        """Return the names of all pools, `default` first."""
        return [DEFAULT, *sorted(self._pools - {DEFAULT})]

    @property
    def any(self) -> bool:
        """Return whether there are others than `default`."""
        return len(self._pools) > 1

    def host(self, hostname: str) -> PooledHost:
        """Return the pool of a host, known or not."""
        return self._hosts.get(hostname) or PooledHost(hostname, DEFAULT)

    def pool_of(self, hostname: str) -> str:
        """Return the name of the pool of a host, known or not."""
        return self.host(hostname).pool

    def destination_of(self, hostname: str) -> str:
        """Return the name of the pool in which a host is or to which it is being moved."""
        host = self.host(hostname)
        return host.desired or host.pool

    def stored_hosts(self) -> Collection[str]:
        """Return the names of hosts that are in other pools than `default`, or are being moved."""
        return self._hosts.keys()

    def moving(self) -> list[PooledHost]:
        """Return the hosts that are being moved, by name."""
        return sorted((host for host in self._hosts.values() if host.desired), key=lambda host: host.hostname)

    def members(self, known: Iterable[str]) -> Mapping[str, list[str]]:
        """Return the hosts of each pool, by name.

        Hosts of `default` are those that are `known`; the other pools keep hosts whose agents are gone.
        """
        found: dict[str, list[str]] = {name: [] for name in self.names()}
        for hostname in sorted({*known, *self._hosts}):
            found[self.pool_of(hostname)].append(hostname)
        return found

    # Changes.

    def plan_create(self, name: str) -> HostPoolChange:
        """Plan an empty pool. Raises InvalidArgument, AlreadyExists."""
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                "name",
                name,
                "1 to 100 letters, digits, dots, - and _, of which the first is a letter or digit",
            )
        if name in self._pools:
            raise AlreadyExists(f"host pool {name} exists already")
        return HostPoolChange(created=(name,))

    def plan_delete(self, name: str) -> HostPoolChange:
        """Plan the end of a pool, whose hosts go to `default`. Raises InvalidArgument, NotFound."""
        self.require(name)
        if name == DEFAULT:
            raise InvalidArgument(
                "name", name, f"a pool that can be deleted: {DEFAULT} takes the others' hosts"
            )

        def elsewhere(pool: str) -> str:
            return DEFAULT if pool == name else pool

        hosts = [host for host in self._hosts.values() if name in (host.pool, host.desired)]
        return self._rows(
            ((host.hostname, elsewhere(host.pool), elsewhere(host.desired)) for host in hosts),
            deleted=(name,),
        )

    def plan_change(
        self, hostname: str, source: str, destination: str, known: Collection[str]
    ) -> HostPoolChange:
        """Plan that a host is in another pool at once; nothing changes where it is there already.

        An empty source is not compared. A host that is being moved is brought up in the new pool. Raises
        InvalidArgument, NotFound for unknown pools and hosts, and Refused for a host that is elsewhere.
        """
        for pool in (source, destination) if source else (destination,):
            self.require(pool)
        if hostname not in known and hostname not in self._hosts:
            raise NotFound(
                f"host {hostname} is unknown: no agent of this name is registered or in maintenance"
            )
        if source == destination:
            raise InvalidArgument("destinationPool", destination, "another pool than sourcePool")
        host = self.host(hostname)
        if host.pool == destination and not host.desired:
            return HostPoolChange()
        if source not in ("", host.pool):
            raise Refused(f"host {hostname} is in host pool {host.pool}, not in {source}")
        return self._rows([(hostname, destination, destination if host.desired else "")])

    def plan_move(self, hostnames: Iterable[str], destination: str) -> HostPoolChange:
        """Plan that hosts are being moved to a pool; they stay in their pools until they arrive."""
        return self._rows((name, self.pool_of(name), destination) for name in hostnames)

    def plan_arrival(self, hostname: str) -> HostPoolChange:
        """Plan that a host that is being moved is in its new pool, where it is still to be brought up."""
        host = self.host(hostname)
        return self._rows([(hostname, host.desired or host.pool, host.desired)])

    def plan_finish(self, hostname: str) -> HostPoolChange:
        """Plan that a host is no longer being moved."""
        return self._rows([(hostname, self.pool_of(hostname), "")])

    def plan_leave(self, hostname: str) -> HostPoolChange:
        """Plan that nothing is known of a host: a later one of this name is in `default`."""
        return self._rows([(hostname, DEFAULT, "")])

    def _rows(self, hosts: Iterable[tuple[str, str, str]], deleted: tuple[str, ...] = ()) -> HostPoolChange:
        """Return the change that gives hosts these pools, each given as (hostname, pool, desired)."""
        placed, forgotten = [], []
        for hostname, pool, desired in hosts:
            row = _row(hostname, pool, desired)
            if row is not None:
                placed.append(row)
            elif hostname in self._hosts:
                forgotten.append(hostname)
        return HostPoolChange(deleted=deleted, placed=tuple(placed), forgotten=tuple(forgotten))

    def apply(self, change: HostPoolChange) -> list[str]:
        """Carry out a change that is stored; return the hosts that are in another pool now."""
        before = {host.hostname: self.pool_of(host.hostname) for host in change.placed}
        before |= {hostname: self.pool_of(hostname) for hostname in change.forgotten}
        self._pools = (self._pools | set(change.created)) - set(change.deleted)
        assert all(host.pool in self._pools for host in change.placed), "a host is in a pool that is none"
        self._hosts |= {host.hostname: host for host in change.placed}
        for hostname in change.forgotten:
            self._hosts.pop(hostname, None)
        return [hostname for hostname, pool in before.items() if pool != self.pool_of(hostname)]

    def require(self, name: str) -> None:
        """Raise NotFound for a pool that does not exist."""
        if name not in self._pools:
            raise NotFound(
                f"host pool {name or '(empty)'} does not exist; there are {', '.join(self.names())}"
            )


def _row(hostname: str, pool: str, desired: str) -> PooledHost | None:
    """Return the row of a host; None where it is in `default` and not being moved."""
    return PooledHost(hostname, pool, desired) if desired or pool != DEFAULT else None

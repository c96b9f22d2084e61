"""Host pools: two partitions for each framework."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.host_pool import HostPoolChange, PooledHost, StoredHostPools
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.session import Session
from storage.cassandra.terms import Gate

_ROWS = 100
"""Rows in one mutation."""


class CassandraHostPools:
    """Host pools in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def write(self, framework: str, change: HostPoolChange) -> None:
        """Write and delete rows: pools first, then hosts."""
        async with self._gate() as when:
            await self._together(
                [
                    *(("put_host_pool", (framework, pool, when)) for pool in change.created),
                    *(("delete_host_pool", (when, framework, pool)) for pool in change.deleted),
                ]
            )
            await self._together(
                [
                    *(
                        ("put_pooled_host", (framework, host.hostname, host.pool, host.desired, when))
                        for host in change.placed
                    ),
                    *(("delete_pooled_host", (when, framework, hostname)) for hostname in change.forgotten),
                ]
            )

    async def all(self, framework: str) -> StoredHostPools:
        """Return all rows of a framework."""
        async with self._session.use():
            pools = await self._session.rows("read_host_pools", framework)
            hosts = await self._session.rows("read_pooled_hosts", framework)
        return StoredHostPools(tuple(pool for (pool,) in pools), tuple(PooledHost(*row) for row in hosts))

    async def _together(self, parts: Sequence[Bound]) -> None:
        for at in range(0, len(parts), _ROWS):
            await self._session.write_together(parts[at : at + _ROWS])

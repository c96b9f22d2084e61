"""Resource pools, lockdown, and what hostmgr keeps: small tables that are read whole."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.host import HostInfo
from peloton.model.ids import PoolId
from peloton.model.lockdown import Component
from peloton.model.pool import PoolConfig
from storage.cassandra.session import Row, Session
from storage.cassandra.terms import Gate
from storage.codec import HOST, POOL
from storage.pool_reads import PoolReads


class _Table:
    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def _put(self, statement: str, *values: object) -> None:
        async with self._gate() as when:
            await self._session.write(statement, *values, when)

    async def _delete(self, statement: str, key: str) -> None:
        async with self._gate() as when:
            await self._session.write(statement, when, key)

    async def _rows(self, statement: str) -> list[Row]:
        async with self._session.use():
            return await self._session.rows(statement)


class CassandraPools(_Table):
    """Resource pools in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate) -> None:
        super().__init__(session, gate)
        self._reads = PoolReads(lambda: self._rows("read_pools"))

    async def write(self, pool: PoolConfig) -> None:
        """Insert or replace."""
        await self._put("put_pool", pool.id, POOL.encode(pool))

    async def delete(self, pool_id: PoolId) -> None:
        """Delete a pool, if it exists, with its secrets."""
        await self._delete("delete_secrets", pool_id)
        await self._delete("delete_pool", pool_id)

    async def all(self) -> Sequence[PoolConfig]:
        """Return all pools."""
        return await self._reads.all()


class CassandraHosts(_Table):
    """Hosts and framework ids in the Cassandra store."""

    async def framework_id(self, name: str) -> str | None:
        """Return the framework id that is stored under a name, if any."""
        async with self._session.use():
            row = await self._session.row("read_framework_id", name)
        return row[0] if row else None

    async def write_framework_id(self, name: str, framework_id: str) -> None:
        """Insert or replace a framework id."""
        await self._put("put_framework_id", name, framework_id)

    async def write(self, host: HostInfo) -> None:
        """Insert or replace a host."""
        await self._put("put_host", host.hostname, HOST.encode(host))

    async def delete(self, hostname: str) -> None:
        """Delete a host, if it exists."""
        await self._delete("delete_host", hostname)

    async def all(self) -> Sequence[HostInfo]:
        """Return all hosts."""
        return tuple(HOST.decode(info) for (info,) in await self._rows("read_hosts"))


class CassandraLockdowns(_Table):
    """Locked components in the Cassandra store."""

    async def write(self, component: Component) -> None:
        """Insert a component; nothing changes where it is there."""
        await self._put("put_lockdown", component.value)

    async def delete(self, component: Component) -> None:
        """Delete a component, if it is there."""
        await self._delete("delete_lockdown", component.value)

    async def all(self) -> frozenset[Component]:
        """Return all components that are locked down."""
        return frozenset(Component(name) for (name,) in await self._rows("read_lockdown"))

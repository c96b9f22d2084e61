"""Resource pools, lockdown, and what hostmgr keeps: small tables that are read whole."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.host import HostInfo
from peloton.model.ids import PoolId
from peloton.model.lockdown import Component
from peloton.model.pool import PoolConfig
from storage.codec import HOST, POOL
from storage.pool_reads import PoolReads
from storage.sqlite.reader import Readers
from storage.sqlite.writer import Writer

REPLACE_POOL = "INSERT OR REPLACE INTO pools (pool_id, config) VALUES (?, ?)"
DELETE_POOL = "DELETE FROM pools WHERE pool_id = ?"
DELETE_SECRETS = "DELETE FROM secrets WHERE job_id = ?"
SELECT_POOLS = "SELECT config FROM pools ORDER BY pool_id"
SELECT_FRAMEWORK_ID = "SELECT framework_id FROM framework_ids WHERE name = ?"
REPLACE_FRAMEWORK_ID = "INSERT OR REPLACE INTO framework_ids (name, framework_id) VALUES (?, ?)"
REPLACE_HOST = "INSERT OR REPLACE INTO hosts (hostname, info) VALUES (?, ?)"
DELETE_HOST = "DELETE FROM hosts WHERE hostname = ?"
SELECT_HOSTS = "SELECT info FROM hosts ORDER BY hostname"
INSERT_LOCKDOWN = "INSERT OR IGNORE INTO lockdown (component) VALUES (?)"
DELETE_LOCKDOWN = "DELETE FROM lockdown WHERE component = ?"
SELECT_LOCKDOWN = "SELECT component FROM lockdown"


class _Table:
    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def _run(self, statement: str, *values: object) -> None:
        await self._writer.submit(lambda db: db.execute(statement, values).rowcount)

    async def _rows(self, statement: str, *values: object) -> Sequence[tuple[str, ...]]:
        return await self._readers.run(lambda db: db.execute(statement, values).fetchall())


class SqlitePools(_Table):
    """Resource pools in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        super().__init__(writer, readers)
        self._reads = PoolReads(lambda: self._rows(SELECT_POOLS))

    async def write(self, pool: PoolConfig) -> None:
        """Insert or replace."""
        await self._run(REPLACE_POOL, pool.id, POOL.encode(pool))

    async def delete(self, pool_id: PoolId) -> None:
        """Delete a pool, if it exists, with its secrets."""
        await self._run(DELETE_SECRETS, pool_id)
        await self._run(DELETE_POOL, pool_id)

    async def all(self) -> Sequence[PoolConfig]:
        """Return all pools."""
        return await self._reads.all()


class SqliteHosts(_Table):
    """Hosts and framework ids in the SQLite store."""

    async def framework_id(self, name: str) -> str | None:
        """Return the framework id that is stored under a name, if any."""
        rows = await self._rows(SELECT_FRAMEWORK_ID, name)
        return rows[0][0] if rows else None

    async def write_framework_id(self, name: str, framework_id: str) -> None:
        """Insert or replace a framework id."""
        await self._run(REPLACE_FRAMEWORK_ID, name, framework_id)

    async def write(self, host: HostInfo) -> None:
        """Insert or replace a host."""
        await self._run(REPLACE_HOST, host.hostname, HOST.encode(host))

    async def delete(self, hostname: str) -> None:
        """Delete a host, if it exists."""
        await self._run(DELETE_HOST, hostname)

    async def all(self) -> Sequence[HostInfo]:
        """Return all hosts."""
        return tuple(HOST.decode(info) for (info,) in await self._rows(SELECT_HOSTS))


class SqliteLockdowns(_Table):
    """Locked components in the SQLite store."""

    async def write(self, component: Component) -> None:
        """Insert a component; nothing changes where it is there."""
        await self._run(INSERT_LOCKDOWN, component.value)

    async def delete(self, component: Component) -> None:
        """Delete a component, if it is there."""
        await self._run(DELETE_LOCKDOWN, component.value)

    async def all(self) -> frozenset[Component]:
        """Return all components that are locked down."""
        return frozenset(Component(name) for (name,) in await self._rows(SELECT_LOCKDOWN))

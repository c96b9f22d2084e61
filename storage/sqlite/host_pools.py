"""Host pools."""

from __future__ import annotations

import sqlite3

from peloton.model.host_pool import HostPoolChange, PooledHost, StoredHostPools
from storage.sqlite.reader import Readers
from storage.sqlite.writer import Writer

REPLACE_POOL = "INSERT OR REPLACE INTO host_pools (framework, pool) VALUES (?, ?)"
DELETE_POOL = "DELETE FROM host_pools WHERE framework = ? AND pool = ?"
SELECT_POOLS = "SELECT pool FROM host_pools WHERE framework = ? ORDER BY pool"
REPLACE_HOST = "INSERT OR REPLACE INTO pooled_hosts (framework, hostname, pool, desired) VALUES (?, ?, ?, ?)"
DELETE_HOST = "DELETE FROM pooled_hosts WHERE framework = ? AND hostname = ?"
SELECT_HOSTS = "SELECT hostname, pool, desired FROM pooled_hosts WHERE framework = ? ORDER BY hostname"


class SqliteHostPools:
    """Host pools in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def write(self, framework: str, change: HostPoolChange) -> None:
        """Write and delete rows."""

        def write(db: sqlite3.Connection) -> None:
            db.executemany(REPLACE_POOL, [(framework, pool) for pool in change.created])
            db.executemany(DELETE_POOL, [(framework, pool) for pool in change.deleted])
            db.executemany(
                REPLACE_HOST, [(framework, host.hostname, host.pool, host.desired) for host in change.placed]
            )
            db.executemany(DELETE_HOST, [(framework, hostname) for hostname in change.forgotten])

        await self._writer.submit(write, len(change.placed) + len(change.forgotten) + 1)

    async def all(self, framework: str) -> StoredHostPools:
        """Return all rows of a framework."""
        return await self._readers.run(lambda db: _read(db, framework))


def _read(db: sqlite3.Connection, framework: str) -> StoredHostPools:
    pools = db.execute(SELECT_POOLS, (framework,)).fetchall()
    hosts = db.execute(SELECT_HOSTS, (framework,)).fetchall()
    return StoredHostPools(tuple(pool for (pool,) in pools), tuple(PooledHost(*row) for row in hosts))

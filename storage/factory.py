"""Where a daemon gets its store from."""

from __future__ import annotations

from storage.config import CassandraSettings, SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite


async def open_store(settings: SqliteSettings | CassandraSettings) -> Store:
    """Open the store; SQLite's schema is brought up to date.

    Raises Refused where the database is no database or newer than this program, or its schema, keyspace
    or credentials are not what they must be, and Unavailable where it cannot be reached or written.
    """
    if isinstance(settings, CassandraSettings):
        # Its driver is large, and not needed for a cluster on one machine.
        from storage.cassandra.store import open_cassandra

        return await open_cassandra(settings)
    return await open_sqlite(settings)

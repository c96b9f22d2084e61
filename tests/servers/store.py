"""An empty store in a Cassandra server of the tests'."""

from __future__ import annotations

import time
from pathlib import Path

from peloton.config.private import write_private
from peloton.errors import Unavailable
from storage.cassandra.connection import Connection, connect
from storage.cassandra.migrate import up
from storage.config import CassandraSettings
from tests.servers.cassandra import CassandraServer

SELECT_TABLES = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s"
MIGRATION_SECONDS = 120
KEPT = {"schema_version", "schema_lock"}


def settings_for(server: CassandraServer, folder: Path, keyspace: str = "peloton") -> CassandraSettings:
    """One replica, and patience for a slow machine; the password goes into `folder`."""
    password_file = None
    if server.username:
        password_file = folder / "cassandra-password"
        write_private(password_file, server.password)
    return CassandraSettings(
        contact_points=(server.host,),
        port=server.port,
        keyspace=keyspace,
        username=server.username,
        password_file=password_file,
        replication={"class": "NetworkTopologyStrategy", "replication_factor": 1},
        connect_timeout=30,
        request_timeout=30,
    )


def connection_to(settings: CassandraSettings) -> Connection:
    """To a keyspace with tables, which is made where it is missing; not durable, so that it empties fast."""
    migrated(settings)
    connection = connect(settings, settings.keyspace)
    connection.execute(f"ALTER KEYSPACE {settings.keyspace} WITH durable_writes = false")
    connection.prepare()
    return connection


def migrated(settings: CassandraSettings) -> None:
    """Repeats the migration as an operator would, while a busy machine lets its statements time out."""
    deadline = time.monotonic() + MIGRATION_SECONDS
    while True:
        try:
            up(settings)
            return
        except Unavailable:
            if time.monotonic() > deadline:
                raise


def empty(connection: Connection, settings: CassandraSettings) -> None:
    """Leaves the tables without a row."""
    for (table,) in connection.execute(SELECT_TABLES, (settings.keyspace,)):
        if table not in KEPT and connection.execute(f"SELECT * FROM {settings.keyspace}.{table} LIMIT 1"):
            connection.execute(f"TRUNCATE {settings.keyspace}.{table}")

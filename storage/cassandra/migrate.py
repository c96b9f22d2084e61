"""Schema migration: files `migrations/NNNN_name.cql`, each applied once, in order.

Several machines may migrate at once: the holder of a lock applies the statements, the others wait. The lock
is a row that expires where its holder dies; the statements may be repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from uuid import UUID, uuid4, uuid5

from peloton.errors import Conflict, Refused, Unavailable
from peloton.model.amounts import duration
from storage.cassandra.connection import Connection, NoKeyspace, connect
from storage.config import CassandraSettings
from storage.newer import newer_schema

log = logging.getLogger(__name__)

# Created without a lock, maybe by several machines at once: by the id it is the same table for all.
CREATE_FIRST = {
    "schema_lock": "(name text PRIMARY KEY, holder uuid)",
    "schema_version": "(shard int, version int, PRIMARY KEY (shard, version))",
}
TAKE_LOCK = "INSERT INTO schema_lock (name, holder) VALUES ('schema', %s) IF NOT EXISTS USING TTL 60"
KEEP_LOCK = "UPDATE schema_lock USING TTL 60 SET holder = %s WHERE name = 'schema' IF holder = %s"
FREE_LOCK = "DELETE FROM schema_lock WHERE name = 'schema' IF holder = %s"
SELECT_VERSION = "SELECT max(version) FROM schema_version WHERE shard = 0"
INSERT_VERSION = "INSERT INTO schema_version (shard, version) VALUES (0, %s)"
SELECT_WRITERS = "SELECT role, version FROM terms"
WRITERS_SINCE = 10
"""Version of the schema since which terms have one."""
SELECT_TABLE = (
    "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s AND table_name = 'schema_version'"
)

_TABLES = UUID("5a3c1ed0-7065-4c6f-8000-000000000001")
_LONGEST_WAIT = 120.0
_LONGEST_CREATION = 10.0
_PAUSE = 0.25
"""Seconds."""
_BEING_CREATED = ("Unknown CF", "schema_version does not exist", "schema_lock does not exist")


def migrations() -> Mapping[int, str]:
    """Return the scripts by version, ascending. Raises ValueError where two have the same version."""
    found: dict[int, str] = {}
    for file in (files(__package__) / "migrations").iterdir():
        if file.name.endswith(".cql"):
            number = int(file.name.partition("_")[0])
            if number in found:
                raise ValueError(f"{file.name}: another migration has the version {number}")
            found[number] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def up(settings: CassandraSettings, scripts: Mapping[int, str] | None = None) -> int:
    """Create or update keyspace and tables; block until done. Return the version of the schema.

    Raises Refused where the schema is newer than `scripts`, Unavailable where the cluster cannot be reached
    or another machine holds the lock for too long.
    """
    scripts = migrations() if scripts is None else scripts
    _create_keyspace(settings)
    connection = connect_patiently(settings)
    try:
        if _needed(version(connection, settings), scripts):
            for table, columns in CREATE_FIRST.items():
                id_ = uuid5(_TABLES, f"{settings.keyspace}.{table}")
                connection.execute(f"CREATE TABLE IF NOT EXISTS {table} {columns} WITH id = {id_}")
            with _lock(connection, settings) as holder:
                _apply_missing(connection, settings, scripts, holder)
        return version(connection, settings)
    finally:
        connection.close()


def version(connection: Connection, settings: CassandraSettings) -> int:
    """Return the version of the keyspace's schema, 0 where it is empty. Blocks."""
    if not connection.execute(SELECT_TABLE, (settings.keyspace,)):
        return 0
    ((found,),) = execute_patiently(connection, SELECT_VERSION)
    return int(found or 0)


def writers(connection: Connection, settings: CassandraSettings) -> Mapping[str, str]:
    """Return the versions that led last, by role; of 0.1 none. Blocks."""
    if version(connection, settings) < WRITERS_SINCE:
        return {}
    return {role: found for role, found in connection.execute(SELECT_WRITERS) if found}


def execute_patiently(
    connection: Connection, statement: str, values: tuple[object, ...] = (), pause: float = _PAUSE
) -> list[tuple[Any, ...]]:
    """Execute a statement on a table that another machine may be creating now.

    A server lists a table shortly before it can be used. Blocks until then; `pause` is in seconds.
    """
    deadline = time.monotonic() + _LONGEST_CREATION
    while True:
        try:
            return connection.execute(statement, values)
        except (Refused, Unavailable) as error:
            if time.monotonic() > deadline or not any(words in str(error) for words in _BEING_CREATED):
                raise
        time.sleep(pause)


def check(connection: Connection, settings: CassandraSettings) -> None:
    """Raise Refused unless the schema of the keyspace is that of this program. Blocks."""
    current, newest = version(connection, settings), max(migrations(), default=0)
    if _needed(current, migrations()):
        raise Refused(
            f"keyspace {settings.keyspace} has schema version {current}, this program needs {newest}: "
            "peloton-migrate up brings it up to date"
        )


def _needed(current: int, scripts: Mapping[int, str]) -> bool:
    newest = max(scripts, default=0)
    if current > newest:
        raise newer_schema("keyspace", current, newest)
    return current < newest


def connect_patiently(
    settings: CassandraSettings,
    connect: Callable[[CassandraSettings, str | None], Connection] = connect,
    pause: float = _PAUSE,
) -> Connection:
    """Connect to the keyspace. One that another machine creates is listed a moment before it can be used."""
    until = time.monotonic() + _LONGEST_CREATION
    while True:
        try:
            return connect(settings, settings.keyspace)
        except NoKeyspace:
            if time.monotonic() > until:
                raise
            time.sleep(pause)


def _create_keyspace(settings: CassandraSettings) -> None:
    connection = connect(settings, None)
    try:
        found = connection.execute(
            "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s", (settings.keyspace,)
        )
        if not found:
            pairs = ", ".join(
                f"{_quoted(key)}: {_quoted(str(of))}" for key, of in settings.replication.items()
            )
            connection.execute(
                f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = {{{pairs}}}"
            )
    finally:
        connection.close()


def _apply_missing(
    connection: Connection, settings: CassandraSettings, scripts: Mapping[int, str], holder: object
) -> None:
    current = version(connection, settings)
    _needed(current, scripts)
    for number, script in scripts.items():
        if number > current:
            for statement in _statements(script):
                if not _applied(execute_patiently(connection, KEEP_LOCK, (holder, holder))):
                    raise Conflict("the lock for changing the schema was lost to another machine")
                connection.execute(statement)
            connection.execute(INSERT_VERSION, (number,))


@contextmanager
def _lock(connection: Connection, settings: CassandraSettings) -> Iterator[object]:
    holder = uuid4()
    deadline = time.monotonic() + _LONGEST_WAIT
    waiting = False
    while not _applied(execute_patiently(connection, TAKE_LOCK, (holder,))):
        if not waiting:
            waiting = True
            log.warning(
                "another machine is changing the schema of keyspace %s: waiting for it, %.0f s at most",
                settings.keyspace,
                _LONGEST_WAIT,
            )
        if time.monotonic() > deadline:
            raise Unavailable(f"another machine has been changing the schema for {duration(_LONGEST_WAIT)}")
        time.sleep(_PAUSE)
    try:
        yield holder
    finally:
        connection.execute(FREE_LOCK, (holder,))


def _applied(rows: list[tuple[Any, ...]]) -> bool:
    return bool(rows[0][0])


def _statements(script: str) -> Iterator[str]:
    lines = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    return (statement.strip() for statement in lines.split(";") if statement.strip())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

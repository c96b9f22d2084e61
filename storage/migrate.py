"""Command `peloton-migrate`: the schema of the store that a daemon's settings name.

    peloton-migrate up|version|check -c FILE…

`up` makes or updates it, `version` prints its number, `check` ends with 1 where it is not this program's. Any
of them may run twice, and on several machines at once.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from peloton.config import Settings, Tree, merged, read_yaml, validated
from peloton.errors import PelotonError, Refused
from storage.config import ENVIRONMENT, CassandraSettings, SqliteSettings, StorageSettings


class _Stored(Settings):
    storage: StorageSettings


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="peloton-migrate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("up", "version", "check"))
    parser.add_argument("-c", "--config", action="append", required=True, type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    try:
        print(_done(options.action, _settings(options.config)))
    except PelotonError as error:
        sys.exit(f"peloton-migrate: {error}")


def _settings(files: Sequence[Path]) -> SqliteSettings | CassandraSettings:
    """Of a daemon's files, in which everything else is passed over. Raises ConfigError."""
    tree: Tree = {}
    for file in files:
        tree = merged(tree, read_yaml(file))
    storage = tree.get("storage", {})
    for name, path in ENVIRONMENT.items():
        if os.environ.get(name):
            storage = merged(storage, {path.removeprefix("storage."): os.environ[name]})
    return validated(_Stored, {"storage": storage}, ", ".join(map(str, files))).storage


def _done(action: str, settings: SqliteSettings | CassandraSettings) -> str:
    """What to tell of it."""
    if isinstance(settings, CassandraSettings):
        return _cassandra(action, settings)
    return _sqlite(action, settings)


def _cassandra(action: str, settings: CassandraSettings) -> str:
    # The driver is large, and not needed for SQLite.
    from storage.cassandra import migrate
    from storage.cassandra.connection import connect

    if action == "up":
        return f"keyspace {settings.keyspace} has schema version {migrate.up(settings)}"
    connection = connect(settings, settings.keyspace)
    try:
        if action == "check":
            migrate.check(connection, settings)
        return f"keyspace {settings.keyspace} has schema version {migrate.version(connection, settings)}"
    finally:
        connection.close()


def _sqlite(action: str, settings: SqliteSettings) -> str:
    from storage.sqlite import migrate
    from storage.sqlite.connection import prepare_directory, writer_connection
    from storage.sqlite.errors import translation

    if action == "up":
        prepare_directory(settings.path)
        with closing(writer_connection(settings.path, settings.busy_timeout)) as db:
            migrate.migrate(db, migrate.migrations(), settings.busy_timeout)
    newest = max(migrate.migrations())
    if not settings.path.exists():
        raise Refused(f"database {settings.path} is not there: peloton-migrate up makes it")
    with translation(), closing(sqlite3.connect(f"{settings.path.as_uri()}?mode=ro", uri=True)) as db:
        (version,) = db.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
    if action == "check" and version != newest:
        raise Refused(f"database {settings.path} has schema version {version}, this program needs {newest}")
    return f"database {settings.path} has schema version {version}"


if __name__ == "__main__":
    main()

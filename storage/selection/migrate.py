"""Command `peloton-migrate`: the schema of the store that a daemon's settings name.

    peloton-migrate up|version|check|rekey -c FILE…

`up` creates or updates it. `version` prints its number, and which versions of Peloton led last. `check` exits
with 1 where it is not the version of this program. `rekey` encrypts the secrets of jobs with the first key of
`storage.secret_keys_file`, also those that are stored as they are; afterwards older keys are not needed.
Daemons may run meanwhile. All of them may run repeatedly, and on several machines at once.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic_settings import SettingsConfigDict

from peloton.config.errors import ConfigError
from peloton.config.loading import SourcedSettings, environment, load
from peloton.config.private import keep_private
from peloton.errors import PelotonError, Refused
from storage.config import CassandraSettings, SqliteSettings, StorageSettings
from storage.newer import newer_schema, written_by
from storage.secret_keys import SecretKeys, read_keys

INTERRUPTED = 130


class _StoreOnly(SourcedSettings):
    """The storage settings in files of a daemon; all others are ignored."""

    model_config = SettingsConfigDict(extra="ignore")

    storage: StorageSettings


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line of peloton-migrate."""
    parser = argparse.ArgumentParser(
        prog="peloton-migrate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("up", "version", "check", "rekey"))
    parser.add_argument("-c", "--config", action="append", required=True, type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    keep_private()
    try:
        print(_done(options.action, _settings(options.config)))
    except PelotonError as error:
        sys.exit(f"peloton-migrate: {error}")
    except KeyboardInterrupt:
        # Not by sys.exit: before it is connected, Cassandra's driver logs errors of its own clean-up.
        os._exit(INTERRUPTED)


def _settings(files: Sequence[Path]) -> SqliteSettings | CassandraSettings:
    """Read the storage settings from the environment and files. Raises ConfigError."""
    return load(_StoreOnly, files, environment(_StoreOnly), named=lambda variable: variable.name).storage


def _done(action: str, settings: SqliteSettings | CassandraSettings) -> str:
    """Carry out the action and return what to print."""
    if isinstance(settings, CassandraSettings):
        return _cassandra(action, settings)
    return _sqlite(action, settings)


def _cassandra(action: str, settings: CassandraSettings) -> str:
    # The driver is large, and not needed for SQLite.
    from storage.cassandra import migrate
    from storage.cassandra.connection import connect
    from storage.cassandra.secrets import rekey

    if action == "up":
        return f"keyspace {settings.keyspace} has schema version {migrate.up(settings)}"
    connection = connect(settings, settings.keyspace)
    try:
        if action == "rekey":
            return _rekeyed(rekey(connection, _keys(settings)))
        if action == "check":
            migrate.check(connection, settings)
        told = written_by(migrate.writers(connection, settings)) if action == "version" else ""
        version = migrate.version(connection, settings)
        return f"keyspace {settings.keyspace} has schema version {version}{told}"
    finally:
        connection.close()


def _sqlite(action: str, settings: SqliteSettings) -> str:
    from storage.sqlite import migrate
    from storage.sqlite.connection import prepare_directory, writer_connection
    from storage.sqlite.secrets import rekey

    path = settings.path.absolute()
    if action == "up":
        prepare_directory(path)
        with _named(path), closing(writer_connection(path, settings.busy_timeout)) as db:
            migrate.migrate(db, migrate.migrations(), settings.busy_timeout)
    newest = max(migrate.migrations())
    if not path.exists():
        raise Refused(f"database {path} does not exist: peloton-migrate up creates it")
    if action == "rekey":
        keys = _keys(settings)
        with _named(path), closing(writer_connection(path, settings.busy_timeout)) as db:
            changed = rekey(db, keys)
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return _rekeyed(changed)
    version = _sqlite_version(path)
    if action == "check" and version > newest:
        raise newer_schema(f"database {path}", version, newest)
    if action == "check" and version < newest:
        raise Refused(
            f"database {path} has schema version {version}, this program needs {newest}: "
            "peloton-migrate up updates it"
        )
    told = written_by(_sqlite_writers(path, version)) if action == "version" else ""
    return f"database {path} has schema version {version}{told}"


def _keys(settings: SqliteSettings | CassandraSettings) -> SecretKeys:
    """Return the keys. Raises ConfigError, also where there are none."""
    if settings.secret_keys_file is None:
        raise ConfigError("storage.secret_keys_file: is needed: its first key is to encrypt the secrets")
    return read_keys(settings.secret_keys_file)


def _rekeyed(changed: int) -> str:
    return (
        f"{changed} secret{'' if changed == 1 else 's'} encrypted with the newest key; all others were before"
    )


def _sqlite_version(path: Path) -> int:
    """Return the schema version, 0 for a database without a schema. Raises PelotonError."""
    tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'schema_version'"
    with _reading(path) as db:
        if not db.execute(tables).fetchone()[0]:
            return 0
        return int(db.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()[0])


def _sqlite_writers(path: Path, version: int) -> Mapping[str, str]:
    from storage.sqlite.terms import WRITERS_SINCE, read_writers

    if version < WRITERS_SINCE:
        return {}
    with _reading(path) as db:
        return read_writers(db)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database to read it only. Raises PelotonError."""
    from storage.sqlite.errors import translation

    with _named(path), translation(), closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        yield db


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Prefix errors of the body with the path of the database."""
    try:
        yield
    except PelotonError as error:
        raise type(error)(f"{path}: {error}") from error


if __name__ == "__main__":
    main()

"""Schema migration: files `migrations/NNNN_name.sql`, each applied once, in order.

Several processes may migrate at once: each reads and updates the version within one write transaction.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files

from peloton.wire.payload import indexed_fields
from storage.codec import decode_payload
from storage.newer import newer_schema
from storage.sqlite.errors import busy, translation

_PAUSE = 0.02


def migrations() -> Mapping[int, str]:
    """Return the scripts by version, ascending. Raises ValueError where two have the same version."""
    found: dict[int, str] = {}
    for file in (files(__package__) / "migrations").iterdir():
        if file.name.endswith(".sql"):
            version = int(file.name.partition("_")[0])
            if version in found:
                raise ValueError(f"{file.name}: another migration has the version {version}")
            found[version] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def migrate(db: sqlite3.Connection, scripts: Mapping[int, str], busy_timeout: float) -> None:
    """Bring the schema up to date.

    Raises Refused where it is newer than `scripts`, Unavailable where another process holds the database for
    longer than `busy_timeout` seconds.
    """
    with translation():
        db.create_function("spec_owner", 1, _spec_owner, deterministic=True)
        _use_wal(db, busy_timeout)
        db.execute("BEGIN IMMEDIATE")
        try:
            _apply_missing(db, scripts)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def _apply_missing(db: sqlite3.Connection, scripts: Mapping[int, str]) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)")
    (current,) = db.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchone()
    newest = max(scripts, default=0)
    if current > newest:
        raise newer_schema("database", current, newest)
    for version, script in scripts.items():
        if version > current:
            for statement in _statements(script):
                db.execute(statement)
            db.execute("INSERT INTO schema_version VALUES (?)", (version,))


def _spec_owner(summary: bytes) -> str:
    """Return the owner in a config, as `job_configs.summary` has it: a function for the scripts."""
    return indexed_fields(decode_payload(summary)).owner


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements, since `executescript` would commit first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _use_wal(db: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch to WAL. Wait for other processes, which the change of mode does not do by itself."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from storage.jobindex.tables import CREATE, TABLES
from storage.sqlite.connection import writer_connection
from storage.sqlite.migrate import migrate, migrations


def columns(script: str) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(script)
        return described(db)


def described(db: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {table: db.execute(f"PRAGMA table_info({table})").fetchall() for table in TABLES}


def test_the_index_database_has_the_tables_of_the_sqlite_store(tmp_path: Path) -> None:
    with closing(writer_connection(tmp_path / "peloton.db", 1)) as db:
        migrate(db, migrations(), 1)
        assert columns(CREATE) == described(db)
    assert all(columns(CREATE).values())

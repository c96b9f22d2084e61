from __future__ import annotations

import sqlite3
from contextlib import closing

from storage.jobindex.tables import CREATE, TABLES
from storage.sqlite.migrate import migrations


def columns(script: str) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(script)
        return {table: db.execute(f"PRAGMA table_info({table})").fetchall() for table in TABLES}


def test_the_index_database_has_the_tables_of_the_sqlite_store() -> None:
    assert columns(CREATE) == columns("".join(migrations().values()))
    assert all(columns(CREATE).values())

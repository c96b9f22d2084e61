"""Terms of leaders, and of the owners of shards: what a write is checked against in its own transaction.

Each is a row: `<role>` for a leader, `<role>#<shard>` for the owner of a shard, `<role>#` for the number of
times that owners have begun terms. While that number is the same, so are all terms of shards: a transaction
reads one row for all of its writes, whatever shards they are of.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

from peloton.errors import Fenced
from peloton.model.versions import OWN
from storage.newer import refuse_newer_writers

SELECT_TERM = "SELECT term FROM terms WHERE role = ?"
SELECT_TERMS = "SELECT role, term FROM terms WHERE role BETWEEN ? AND ?"
RAISE_TERM = (
    "INSERT INTO terms (role, term, version) VALUES (?, ?, ?) ON CONFLICT (role) DO UPDATE "
    "SET term = excluded.term, version = excluded.version WHERE excluded.term > term"
)
SELECT_WRITERS = "SELECT role, version FROM terms WHERE version != ''"
WRITERS_SINCE = 10
"""Version of the schema since which terms have one."""
MARK = "#"
"""Between the name of a role and the number of a shard; in no role's name."""
Term = tuple[str, int]
"""Key of a row, and the term."""


def of_shard(role: str, shard: int) -> str:
    """Return the key of the row of a shard."""
    return f"{role}{MARK}{shard}"


class NewestTerms:
    """The newest terms, as the database has them at the begin of a transaction. Belongs to one thread."""

    def __init__(self) -> None:
        self._changes = -1
        self._shards: dict[str, int] = {}
        """The newest term of each shard of one role, as of the number of changes in `_changes`."""

    def read(self, db: sqlite3.Connection, keys: Collection[str]) -> Mapping[str, int]:
        """Return the newest term for each key, 0 where there is none."""
        newest = {key: newest_term(db, key) for key in keys if MARK not in key}
        shards = [key for key in keys if MARK in key]
        if shards:
            count = f"{shards[0].partition(MARK)[0]}{MARK}"
            assert all(key.startswith(count) for key in shards), f"shards of several roles: {shards}"
            changes = newest_term(db, count)
            if changes != self._changes:
                self._shards = dict(
                    db.execute(SELECT_TERMS, (count, f"{count}:"))
                )  # ":" is behind all digits
                self._changes = changes
            newest |= {key: self._shards.get(key, 0) for key in shards}
        return newest


def newest_term(db: sqlite3.Connection, key: str) -> int:
    """Return the newest term, 0 where there is none."""
    row = db.execute(SELECT_TERM, (key,)).fetchone()
    return int(row[0]) if row else 0


def begin_term(role: str, term: int, db: sqlite3.Connection) -> None:
    """Raise the term of a leader. Raises as `storage.interface.Store.begin_term` says."""
    _require(db, role, term)
    refuse_newer_writers(read_writers(db))
    db.execute(RAISE_TERM, (role, term, OWN))


def read_writers(db: sqlite3.Connection) -> dict[str, str]:
    """Return the versions that led last, by role; of 0.1 none."""
    return dict(db.execute(SELECT_WRITERS))


def begin_shards(role: str, terms: Mapping[int, int], db: sqlite3.Connection) -> None:
    """Raise the terms of shards, all or none. Raises Fenced where a newer one of any has begun."""
    for shard, term in terms.items():
        key = of_shard(role, shard)
        _require(db, key, term)
        db.execute(RAISE_TERM, (key, term, ""))
    count = f"{role}{MARK}"
    db.execute(RAISE_TERM, (count, newest_term(db, count) + 1, ""))


def _require(db: sqlite3.Connection, key: str, term: int) -> None:
    newest = newest_term(db, key)
    if newest > term:
        raise fenced(key, term, newest)


def fenced(key: str, term: int, newest: int) -> Fenced:
    """Return the error of a write in a term that is over."""
    role, mark, shard = key.partition(MARK)
    what = f"{role}, shard {shard}" if mark else role
    return Fenced(f"{what}: term {term} is over, term {newest} has begun")

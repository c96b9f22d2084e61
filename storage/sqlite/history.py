"""Blocks of samples over time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from peloton.model.history import HistoryBlock
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Writer

PUT = "INSERT OR REPLACE INTO history (scope, step, start, part, body)"
READ = "SELECT part, body FROM history WHERE scope = ? AND step = ? AND start = ? ORDER BY part"
READ_PART = "SELECT part, body FROM history WHERE scope = ? AND step = ? AND start = ? AND part = ?"
EXPIRE = "DELETE FROM history WHERE scope = ? AND step = ? AND start < ?"


class SqliteHistory:
    """Blocks in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def write(self, blocks: Sequence[HistoryBlock], keep_seconds: int) -> None:
        """Insert or replace blocks of one step, and drop those of their scopes that are older."""
        if not blocks:
            return
        values: list[object] = []
        for each in blocks:
            values += (each.scope, each.step, each.start, each.part, each.body)
        old = {(each.scope, each.step, each.start - keep_seconds) for each in blocks}

        def write(db: sqlite3.Connection) -> None:
            insert(db, PUT, 5, values)
            for key in sorted(old):
                db.execute(EXPIRE, key)

        await self._writer.submit(write, len(blocks) + 1)

    async def read(
        self, scope: str, step: int, starts: Sequence[int], part: int | None = None
    ) -> Sequence[HistoryBlock]:
        """Return the blocks of some begins, in their order; with `part`, that part of each."""
        statement, last = (READ, ()) if part is None else (READ_PART, (part,))

        def read(db: sqlite3.Connection) -> list[HistoryBlock]:
            return [
                HistoryBlock(scope, step, start, number, body)
                for start in starts
                for number, body in db.execute(statement, (scope, step, start, *last))
            ]

        return await self._readers.run(read)

"""Hosts that hostmgr has seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from peloton.model.known_host import KnownHost
from storage.codec import KNOWN_HOST
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Writer

PUT = "INSERT OR REPLACE INTO known_hosts (framework, hostname, host)"
DELETE = "DELETE FROM known_hosts WHERE framework = ? AND hostname = ?"
SELECT = "SELECT host FROM known_hosts WHERE framework = ? ORDER BY hostname"


class SqliteKnownHosts:
    """Known hosts in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def write(self, framework: str, hosts: Sequence[KnownHost], forgotten: Sequence[str] = ()) -> None:
        """Write and delete hosts."""
        rows: list[object] = []
        for host in hosts:
            rows += (framework, host.hostname, KNOWN_HOST.encode(host))

        def write(db: sqlite3.Connection) -> None:
            insert(db, PUT, 3, rows)
            db.executemany(DELETE, [(framework, hostname) for hostname in forgotten])

        await self._writer.submit(write, len(hosts) + len(forgotten) + 1)

    async def all(self, framework: str) -> Sequence[KnownHost]:
        """Return all hosts of a framework, by name."""
        rows = await self._readers.run(lambda db: db.execute(SELECT, (framework,)).fetchall())
        return tuple(KNOWN_HOST.decode(host) for (host,) in rows)

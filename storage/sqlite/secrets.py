"""The contents of secret files."""

from __future__ import annotations

import sqlite3

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.payload import SecretBytes
from storage.sqlite.reader import Readers
from storage.sqlite.writer import Write

REPLACE_SECRET = "INSERT OR REPLACE INTO secrets (job_id, key, data) VALUES (?, ?, ?)"
SELECT_SECRET = "SELECT data FROM secrets WHERE job_id = ? AND key = ?"


def writing_secrets(job_id: JobId, secrets: SecretBytes) -> Write[None]:
    """Return the write of secrets."""
    rows = [(job_id, key, data) for key, data in secrets.items()]

    def write(db: sqlite3.Connection) -> None:
        db.executemany(REPLACE_SECRET, rows)

    return write


class SqliteSecrets:
    """Secrets in the SQLite store."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def read(self, job_id: JobId, key: str) -> bytes:
        """Return the content that is stored under a key of a job. Raises NotFound."""
        row = await self._readers.run(lambda db: db.execute(SELECT_SECRET, (job_id, key)).fetchone())
        if row is None:
            raise NotFound(f"job {job_id} has no secret under the key {key}")
        return bytes(row[0])

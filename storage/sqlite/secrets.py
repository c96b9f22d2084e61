"""The contents of secret files."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from peloton.errors import NotFound
from peloton.model.ids import JobId, PoolId
from peloton.model.payload import SecretBytes
from storage.secret_keys import PLAIN, SecretKeys
from storage.sqlite.reader import Readers
from storage.sqlite.writer import Write, Writer

REPLACE_SECRET = "INSERT OR REPLACE INTO secrets (job_id, key, data) VALUES (?, ?, ?)"
ALL_SECRETS = "SELECT job_id, key FROM secrets"
REKEY_SECRET = "UPDATE secrets SET data = ? WHERE job_id = ? AND key = ? AND data = ?"
DELETE_SECRET = "DELETE FROM secrets WHERE job_id = ? AND key = ?"
SELECT_KEYS = "SELECT key FROM secrets WHERE job_id = ? ORDER BY key"
SELECT_SECRET = "SELECT data FROM secrets WHERE job_id = ? AND key = ?"


def writing_secrets(job_id: JobId, secrets: SecretBytes, keys: SecretKeys = PLAIN) -> Write[None]:
    """Return the write of secrets."""
    rows = [(job_id, key, keys.seal(job_id, key, data)) for key, data in secrets.items()]

    def write(db: sqlite3.Connection) -> None:
        db.executemany(REPLACE_SECRET, rows)

    return write


class SqliteSecrets:
    """Secrets in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers, keys: SecretKeys = PLAIN) -> None:
        self._writer = writer
        self._readers = readers
        self._keys = keys

    async def read(self, job_id: JobId, key: str) -> bytes:
        """Return the content that is stored under a key of a job. Raises NotFound, and Refused."""
        row = await self._readers.run(lambda db: db.execute(SELECT_SECRET, (job_id, key)).fetchone())
        if row is None:
            raise NotFound(f"job {job_id} has no secret under the key {key}")
        return self._keys.open(job_id, key, bytes(row[0]))

    async def keys(self, pool_id: PoolId) -> Sequence[str]:
        """Return the keys that a pool has, in order."""
        rows = await self._readers.run(lambda db: db.execute(SELECT_KEYS, (pool_id,)).fetchall())
        return [key for (key,) in rows]

    async def put(self, pool_id: PoolId, contents: SecretBytes) -> None:
        """Write contents of a pool by their keys, in place of those that are there."""
        await self._writer.submit(writing_secrets(pool_id, contents, self._keys))

    async def drop(self, pool_id: PoolId, keys: Sequence[str]) -> None:
        """Delete contents of a pool; those that are not there count as deleted."""
        rows = [(pool_id, key) for key in keys]

        def write(db: sqlite3.Connection) -> None:
            db.executemany(DELETE_SECRET, rows)

        await self._writer.submit(write)


def rekey(db: sqlite3.Connection, keys: SecretKeys) -> int:
    """Encrypt all secrets with the newest key; return how many were not. Raises Refused where no key fits."""
    changed = 0
    db.execute("PRAGMA secure_delete = ON")  # what is replaced is overwritten in the file too
    for job_id, key in db.execute(ALL_SECRETS).fetchall():  # all contents at once may be too much
        row = db.execute(SELECT_SECRET, (job_id, key)).fetchone()
        data = None if row is None else row[0]
        if data is None or keys.is_newest(data):
            continue
        sealed = keys.seal(job_id, key, keys.open(job_id, key, bytes(data)))
        # A job that was changed or deleted meanwhile has no such row any more.
        done = db.execute(REKEY_SECRET, (sealed, job_id, key, data))
        changed += done.rowcount
    return changed

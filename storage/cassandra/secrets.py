"""The contents of secret files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from peloton.errors import NotFound
from peloton.model.ids import JobId, PoolId
from peloton.model.payload import SecretBytes
from storage.cassandra.connection import Connection
from storage.cassandra.session import Session
from storage.cassandra.terms import Gate
from storage.secret_keys import PLAIN, SecretKeys

ALL_SECRETS = "SELECT job_id, key FROM secrets"
ONE_SECRET = "SELECT data, WRITETIME(data) FROM secrets WHERE job_id = %s AND key = %s"
REKEY_SECRET = "UPDATE secrets USING TIMESTAMP %s SET data = %s WHERE job_id = %s AND key = %s"


class SecretRows:
    """Write rows of secrets, within the gate of their job."""

    def __init__(self, session: Session, keys: SecretKeys = PLAIN) -> None:
        self._session = session
        self._keys = keys

    async def put(self, job_id: JobId, secrets: SecretBytes, when: int) -> None:
        """Write secrets."""
        await asyncio.gather(
            *(
                self._session.write("put_secret", job_id, key, self._keys.seal(job_id, key, data), when)
                for key, data in secrets.items()
            )
        )

    async def drop(self, job_id: JobId, keys: Iterable[str], when: int) -> None:
        """Delete some secrets of a job."""
        await asyncio.gather(*(self._session.write("delete_secret", when, job_id, key) for key in keys))

    async def delete(self, job_id: JobId, when: int) -> None:
        """Delete all secrets of a job."""
        await self._session.write("delete_secrets", when, job_id)


class CassandraSecrets:
    """Secrets in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate, rows: SecretRows, keys: SecretKeys = PLAIN) -> None:
        self._session = session
        self._gate = gate
        self._secret_rows = rows
        self._keys = keys

    async def read(self, job_id: JobId, key: str) -> bytes:
        """Return the content that is stored under a key of a job. Raises NotFound, and Refused."""
        async with self._session.use():
            row = await self._session.row("read_secret", job_id, key)
        if row is None:
            raise NotFound(f"job {job_id} has no secret under the key {key}")
        return self._keys.open(job_id, key, bytes(row[0]))

    async def keys(self, pool_id: PoolId) -> Sequence[str]:
        """Return the keys that a pool has, in order."""
        async with self._session.use():
            return [key for (key,) in await self._session.rows("read_secret_keys", pool_id)]

    async def put(self, pool_id: PoolId, contents: SecretBytes) -> None:
        """Write contents of a pool by their keys, in place of those that are there."""
        async with self._gate() as when:
            await self._secret_rows.put(pool_id, contents, when)

    async def drop(self, pool_id: PoolId, keys: Sequence[str]) -> None:
        """Delete contents of a pool; those that are not there count as deleted."""
        async with self._gate() as when:
            await self._secret_rows.drop(pool_id, keys, when)


def rekey(connection: Connection, keys: SecretKeys) -> int:
    """Encrypt all secrets with the newest key; return how many were not. Blocks.

    A row keeps its place in time: what a job wrote or deleted meanwhile wins. Raises Refused where no key
    fits.
    """
    changed = 0
    for job_id, key in connection.execute(ALL_SECRETS):
        found = connection.execute(ONE_SECRET, (job_id, key))  # all contents at once may be too much
        data, written = found[0] if found else (None, 0)
        if data is None or keys.is_newest(bytes(data)):
            continue
        sealed = keys.seal(str(job_id), key, keys.open(str(job_id), key, bytes(data)))
        connection.execute(REKEY_SECRET, (written + 1, sealed, job_id, key))
        changed += 1
    return changed

"""The contents of secret files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.payload import SecretBytes
from storage.cassandra.session import Session


class SecretRows:
    """Write rows of secrets, within the gate of their job."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put(self, job_id: JobId, secrets: SecretBytes, when: int) -> None:
        """Write secrets."""
        await asyncio.gather(
            *(self._session.write("put_secret", job_id, key, data, when) for key, data in secrets.items())
        )

    async def drop(self, job_id: JobId, keys: Iterable[str], when: int) -> None:
        """Delete some secrets of a job."""
        await asyncio.gather(*(self._session.write("delete_secret", when, job_id, key) for key in keys))

    async def delete(self, job_id: JobId, when: int) -> None:
        """Delete all secrets of a job."""
        await self._session.write("delete_secrets", when, job_id)


class CassandraSecrets:
    """Secrets in the Cassandra store."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def read(self, job_id: JobId, key: str) -> bytes:
        """Return the content that is stored under a key of a job. Raises NotFound."""
        async with self._session.use():
            row = await self._session.row("read_secret", job_id, key)
        if row is None:
            raise NotFound(f"job {job_id} has no secret under the key {key}")
        return bytes(row[0])

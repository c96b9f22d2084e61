"""The secret files of tasks that are launched."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.errors import NotFound, Refused
from peloton.model.ids import JobId
from peloton.model.payload import SecretRef
from storage.interface import Secrets

log = logging.getLogger(__name__)
Refs = tuple[SecretRef, ...]


class SecretFiles:
    """The secret files of the runs of one launch: read from the store."""

    def __init__(self, stored: Secrets) -> None:
        self._stored = stored
        self._read: dict[tuple[JobId, str], bytes] = {}

    async def read(self, job_id: JobId, refs: Refs) -> str:
        """Read contents, until the store answers; return why one cannot be had, empty where all are there."""
        for ref in refs:
            if (job_id, ref.key) not in self._read and (wrong := await self._wrong(job_id, ref)):
                return f"the secret {ref.id} ({ref.path}) {wrong}"
        return ""

    def of(self, job_id: JobId, refs: Refs) -> Sequence[tuple[str, bytes]]:
        """Return path and content of secrets that have been read."""
        return [(ref.path, self._read[job_id, ref.key]) for ref in refs]

    async def _wrong(self, job_id: JobId, ref: SecretRef) -> str:
        delays = backoff()
        while True:
            try:
                self._read[job_id, ref.key] = await self._stored.read(job_id, ref.key)
                return ""
            except NotFound:
                return "is not stored"
            except Refused as error:
                log.error("%s", error)
                return f"cannot be read: {error}"
            except TRANSIENT as error:
                log.warning("cannot read the secrets of job %s, will try again: %s", job_id, error)
            await delays.wait()

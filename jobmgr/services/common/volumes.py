"""What both volume services do (docs/behaviour/operation.md, Volumes)."""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.engine.engine import Engine
from jobmgr.services.common.view import JOB_NOT_FOUND
from peloton.errors import NotFound
from peloton.model.ids import JobId, is_uuid
from peloton.model.volume import Volume, VolumeId


class Volumes:
    """The volumes of all jobs, those of deleted jobs included."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def of_job(self, job_id: JobId) -> Sequence[Volume]:
        """Return the volumes of a job. Raises NotFound for a job that is not there and left no volumes."""
        if not is_uuid(job_id):
            raise NotFound(JOB_NOT_FOUND)
        volumes = await self._engine.store.volumes.of_job(job_id)
        if not volumes:
            await self._engine.summary(job_id)
        return volumes

    async def get(self, volume_id: VolumeId) -> Volume:
        """Return a volume. Raises NotFound."""
        try:
            return await self._engine.store.volumes.get(volume_id)
        except NotFound:
            raise NotFound(f"volume not found: {volume_id or '(empty)'}") from None

    async def delete(self, volume_id: VolumeId) -> None:
        """Delete a volume. Raises NotFound, and Refused while a run uses it."""
        await self.get(volume_id)
        await self._engine.delete_volume(volume_id)

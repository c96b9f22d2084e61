"""Persistent volumes: one partition, which is small."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.volume import Volume, VolumeId
from storage.cassandra.session import Session
from storage.cassandra.terms import Gate
from storage.codec import VOLUME
from storage.volume_keys import decoded, ids_of


async def write_volumes(session: Session, volumes: Sequence[Volume], when: int) -> None:
    """Write volumes. Called within the gate of their job."""
    for volume in volumes:
        await session.write("put_volume", volume.id, VOLUME.encode(volume), when)


class CassandraVolumes:
    """Volumes in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def get(self, volume_id: VolumeId) -> Volume:
        """Return a volume. Raises NotFound."""
        async with self._session.use():
            row = await self._session.row("read_volume", volume_id)
        if row is None:
            raise NotFound(f"volume {volume_id} is not stored")
        return VOLUME.decode(row[0])

    async def of_job(self, job_id: JobId) -> Sequence[Volume]:
        """Return all volumes of a job, deleted ones included, by instance and age."""
        async with self._session.use():
            return decoded(await self._session.rows("read_volumes_between", *ids_of(job_id)))

    async def all(self) -> Sequence[Volume]:
        """Return all volumes, deleted ones included."""
        async with self._session.use():
            return decoded(await self._session.rows("read_volumes"))

    async def write(self, volume: Volume) -> None:
        """Insert or replace a volume that no task uses."""

        async def write(when: int) -> None:
            await write_volumes(self._session, [volume], when)

        await self._gate.run(volume.job_id, write)

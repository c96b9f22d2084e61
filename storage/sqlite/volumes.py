"""Persistent volumes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.volume import Volume, VolumeId
from storage.codec import VOLUME
from storage.sqlite.reader import Readers
from storage.sqlite.rows import insert
from storage.sqlite.writer import Write, Writer
from storage.volume_keys import decoded, ids_of

PUT = "INSERT OR REPLACE INTO volumes (volume_id, volume)"
SELECT_ONE = "SELECT volume FROM volumes WHERE volume_id = ?"
SELECT_SOME = "SELECT volume FROM volumes WHERE volume_id >= ? AND volume_id < ?"
SELECT_ALL = "SELECT volume FROM volumes"


def writing_volumes(volumes: Sequence[Volume]) -> Write[None]:
    """Return the write of volumes, encoded now."""
    rows: list[object] = []
    for volume in volumes:
        rows += (volume.id, VOLUME.encode(volume))

    def write(db: sqlite3.Connection) -> None:
        insert(db, PUT, 2, rows)

    return write


class SqliteVolumes:
    """Volumes in the SQLite store."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def get(self, volume_id: VolumeId) -> Volume:
        """Return a volume. Raises NotFound."""
        row = await self._readers.run(lambda db: db.execute(SELECT_ONE, (volume_id,)).fetchone())
        if row is None:
            raise NotFound(f"volume {volume_id} is not stored")
        return VOLUME.decode(row[0])

    async def of_job(self, job_id: JobId) -> Sequence[Volume]:
        """Return all volumes of a job, deleted ones included, by instance and age."""
        keys = ids_of(job_id)
        return decoded(await self._readers.run(lambda db: db.execute(SELECT_SOME, keys).fetchall()))

    async def all(self) -> Sequence[Volume]:
        """Return all volumes, deleted ones included."""
        return decoded(await self._readers.run(lambda db: db.execute(SELECT_ALL).fetchall()))

    async def write(self, volume: Volume) -> None:
        """Insert or replace a volume that no task uses."""
        await self._writer.submit(writing_volumes([volume]), job_id=volume.job_id)

"""The shard of a job: the part of all jobs that one job manager owns at a time (docs/shards.md)."""

from __future__ import annotations

from zlib import crc32

from peloton.model.ids import JobId

SHARDS = 64
"""Shards of an installation. Each of its processes must count with the same number."""


def shard_of(job_id: JobId, shards: int = SHARDS) -> int:
    """Return the number of the job's shard, from 0 on: the same in every process and every version."""
    return crc32(job_id.encode()) % shards

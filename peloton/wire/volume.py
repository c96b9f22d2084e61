"""Encode persistent volumes for the v0 API."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.volume import volume_pb2
from peloton.clock import rfc3339
from peloton.model.volume import Volume


def volume_info(volume: Volume) -> volume_pb2.PersistentVolumeInfo:
    """Encode a volume."""
    return volume_pb2.PersistentVolumeInfo(
        id=peloton_pb2.VolumeID(value=volume.id),
        jobId=peloton_pb2.JobID(value=volume.job_id),
        instanceId=volume.instance,
        hostname=volume.hostname,
        state=volume_pb2.VolumeState.ValueType(volume.state),
        goalState=volume_pb2.VolumeState.ValueType(volume.goal),
        sizeMB=volume.size_mb,
        containerPath=volume.container_path,
        createTime=rfc3339(volume.created_at),
        updateTime=rfc3339(volume.updated_at),
    )


def volumes_by_id(volumes: Iterable[Volume]) -> dict[str, volume_pb2.PersistentVolumeInfo]:
    """Encode volumes, by id."""
    return {volume.id: volume_info(volume) for volume in volumes}

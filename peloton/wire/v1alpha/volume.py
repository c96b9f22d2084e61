"""Encode persistent volumes for the v1alpha API."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.volume import volume_pb2
from peloton.clock import rfc3339
from peloton.model.ids import task_id
from peloton.model.volume import Volume


def volume_info(volume: Volume) -> volume_pb2.PersistentVolumeInfo:
    """Encode a volume."""
    return volume_pb2.PersistentVolumeInfo(
        volume_id=peloton_pb2.VolumeID(value=volume.id),
        pod_name=peloton_pb2.PodName(value=task_id(volume.job_id, volume.instance)),
        hostname=volume.hostname,
        state=volume_pb2.VolumeState.ValueType(volume.state),
        desired_state=volume_pb2.VolumeState.ValueType(volume.goal),
        size_mb=volume.size_mb,
        container_path=volume.container_path,
        create_time=rfc3339(volume.created_at),
        update_time=rfc3339(volume.updated_at),
    )


def volumes_by_id(volumes: Iterable[Volume]) -> dict[str, volume_pb2.PersistentVolumeInfo]:
    """Encode volumes, by id."""
    return {volume.id: volume_info(volume) for volume in volumes}

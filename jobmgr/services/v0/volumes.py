"""VolumeService of the v0 API: the persistent volumes of stateful jobs."""

from __future__ import annotations

from typing import Any

from jobmgr.services.common.volumes import Volumes
from peloton.api.v0.volume.svc import volume_svc_pb2 as pb
from peloton.api.v0.volume.svc import volume_svc_pb2_grpc
from peloton.wire.volume import volume_info, volumes_by_id


class VolumeService(volume_svc_pb2_grpc.VolumeServiceServicer):
    """Serves volumes. Failures are gRPC statuses."""

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes

    async def ListVolumes(self, request: pb.ListVolumesRequest, context: Any) -> pb.ListVolumesResponse:
        """Return the volumes of a job, deleted ones included. Raises NotFound."""
        return pb.ListVolumesResponse(volumes=volumes_by_id(await self._volumes.of_job(request.jobId.value)))

    async def GetVolume(self, request: pb.GetVolumeRequest, context: Any) -> pb.GetVolumeResponse:
        """Return a volume. Raises NotFound."""
        return pb.GetVolumeResponse(result=volume_info(await self._volumes.get(request.id.value)))

    async def DeleteVolume(self, request: pb.DeleteVolumeRequest, context: Any) -> pb.DeleteVolumeResponse:
        """Delete a volume with its data; one that is deleted already stays so.

        Its host destroys it afterwards, or when it comes back; the instance may run on any host from now on.
        Raises NotFound, and Refused while a run uses it.
        """
        await self._volumes.delete(request.id.value)
        return pb.DeleteVolumeResponse()

"""The operations of InternalHostService: reservations, persistent volumes, and operations on a claim."""

from __future__ import annotations

from typing import Any

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.state.operations import Reserve, Unreserve
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.operations import Operations
from hostmgr.services.operations import amounts_from, operations_from, volume_from
from peloton.errors import InvalidArgument, Unavailable
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.private.hostmgr.hostsvc import hostsvc_pb2_grpc


class OperationMethods(hostsvc_pb2_grpc.InternalHostServiceServicer):
    """Serve the operations. Mesos carries them out after the answer; offers and agents show the result."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager
        self._operations = Operations(manager)

    async def ReserveResources(
        self, request: pb.ReserveResourcesRequest, context: Any
    ) -> pb.ReserveResourcesResponse:
        """Reserve resources, all on one host that is not claimed, with the labels of their reservations.

        Raises InvalidArgument, Refused where no host offers as much, and Unavailable.
        """
        await self._operations.on_any_host(Reserve(amounts_from(request.resources, "resources")))
        return pb.ReserveResourcesResponse()

    async def UnreserveResources(
        self, request: pb.UnreserveResourcesRequest, context: Any
    ) -> pb.UnreserveResourcesResponse:
        """End reservations, all on one host that is not claimed. Their labels must be exactly those given.

        Raises InvalidArgument, Refused where no host offers such resources, and Unavailable.
        """
        await self._operations.on_any_host(Unreserve(amounts_from(request.resources, "resources")))
        return pb.UnreserveResourcesResponse()

    async def CreateVolumes(self, request: pb.CreateVolumesRequest, context: Any) -> pb.CreateVolumesResponse:
        """Create persistent volumes, each on a host that is not claimed, on reserved disk or on other.

        Raises InvalidArgument, AlreadyExists, Refused where no host has the disk, and Unavailable. Volumes
        before the one that is refused are created.
        """
        if not request.volumes:
            raise InvalidArgument("volumes", "[]", "at least one volume")
        operations = [volume_from(each, f"volumes[{i}]") for i, each in enumerate(request.volumes)]
        for operation in operations:
            await self._operations.create_volume(operation)
        return pb.CreateVolumesResponse()

    async def DestroyVolumes(
        self, request: pb.DestroyVolumesRequest, context: Any
    ) -> pb.DestroyVolumesResponse:
        """Destroy persistent volumes, named by their persistence ids, and free their disk.

        Mesos carries it out after the answer; the map of agents shows the result. Raises InvalidArgument for
        a resource that is no volume, NotFound for one that no agent has, Refused for one in use, and
        Unavailable while its host is claimed.
        """
        ids = [each.disk.persistence.id for each in request.volumes]
        if not ids or not all(ids):
            raise InvalidArgument("volumes", ids, "resources with disk.persistence.id, at least one")
        for each in ids:
            self._manager.destroy_volume(each)
        return pb.DestroyVolumesResponse()

    async def OfferOperations(
        self, request: pb.OfferOperationsRequest, context: Any
    ) -> pb.OfferOperationsResponse:
        """Carry out operations in order, all or none, on a claimed host; the same call again does nothing.

        A call that asks for more than the host offers ends the claim.
        """
        answer = pb.OfferOperationsResponse()
        content = tuple(each.SerializeToString(deterministic=True) for each in request.operations)
        try:
            operations = operations_from(request.operations)
            self._operations.on_claimed_host(request.id.value, request.hostname, operations, content)
            await self._manager.room()
        except InvalidArgument as error:
            answer.error.invalidArgument.message = str(error)
        except InvalidOffers as error:
            answer.error.invalidOffers.message = str(error)
        except Unavailable as error:
            answer.error.failure.message = str(error)
        return answer

"""Host pools in v0 and v1alpha HostService. Failures are gRPC statuses."""

from __future__ import annotations

from typing import Any

from hostmgr.core.pools.moves import MoveRequest
from hostmgr.drivers.host_mover import HostMover
from hostmgr.drivers.host_pools import HostPoolManager
from peloton.api.v0.host.svc import host_svc_pb2 as v0
from peloton.api.v0.host.svc import host_svc_pb2_grpc as v0_grpc
from peloton.api.v1alpha.host.svc import host_svc_pb2 as v1alpha
from peloton.api.v1alpha.host.svc import host_svc_pb2_grpc as v1alpha_grpc


class HostPoolMethods(v0_grpc.HostServiceServicer):
    """The methods of v0 HostService about host pools."""

    def __init__(self, pools: HostPoolManager, mover: HostMover) -> None:
        self._pools = pools
        self._mover = mover

    async def ListHostPools(self, request: v0.ListHostPoolsRequest, context: Any) -> v0.ListHostPoolsResponse:
        """Return all pools with their hosts."""
        answer = v0.ListHostPoolsResponse(not_in_use=not self._pools.hosts.in_use)
        for name, hosts in self._pools.members().items():
            answer.pools.add(name=name, hosts=hosts)
        return answer

    async def CreateHostPool(
        self, request: v0.CreateHostPoolRequest, context: Any
    ) -> v0.CreateHostPoolResponse:
        """Add an empty pool."""
        await self._pools.create(request.name)
        return v0.CreateHostPoolResponse()

    async def DeleteHostPool(
        self, request: v0.DeleteHostPoolRequest, context: Any
    ) -> v0.DeleteHostPoolResponse:
        """Delete a pool; its hosts go to `default`."""
        await self._pools.delete(request.name)
        return v0.DeleteHostPoolResponse()

    async def ChangeHostPool(
        self, request: v0.ChangeHostPoolRequest, context: Any
    ) -> v0.ChangeHostPoolResponse:
        """Put a host in another pool at once."""
        await self._pools.change(request.hostname, request.sourcePool, request.destinationPool)
        return v0.ChangeHostPoolResponse()

    async def MoveHosts(self, request: v0.MoveHostsRequest, context: Any) -> v0.MoveHostsResponse:
        """Begin to move hosts until two pools have the numbers that are wanted."""
        await self._mover.move(
            MoveRequest(
                request.sourcePool,
                request.srcPoolDesiredHosts,
                request.destinationPool,
                request.destPoolDesiredHosts,
            )
        )
        return v0.MoveHostsResponse()


class HostPoolMethodsV1Alpha(v1alpha_grpc.HostServiceServicer):
    """The methods of v1alpha HostService about host pools."""

    def __init__(self, pools: HostPoolManager) -> None:
        self._pools = pools

    async def ListHostPools(
        self, request: v1alpha.ListHostPoolsRequest, context: Any
    ) -> v1alpha.ListHostPoolsResponse:
        """Return all pools with their hosts."""
        answer = v1alpha.ListHostPoolsResponse()
        for name, hosts in self._pools.members().items():
            answer.pools.add(name=name, hosts=hosts)
        return answer

    async def CreateHostPool(
        self, request: v1alpha.CreateHostPoolRequest, context: Any
    ) -> v1alpha.CreateHostPoolResponse:
        """Add an empty pool."""
        await self._pools.create(request.name)
        return v1alpha.CreateHostPoolResponse()

    async def DeleteHostPool(
        self, request: v1alpha.DeleteHostPoolRequest, context: Any
    ) -> v1alpha.DeleteHostPoolResponse:
        """Delete a pool; its hosts go to `default`."""
        await self._pools.delete(request.name)
        return v1alpha.DeleteHostPoolResponse()

    async def ChangeHostPool(
        self, request: v1alpha.ChangeHostPoolRequest, context: Any
    ) -> v1alpha.ChangeHostPoolResponse:
        """Put a host in another pool at once."""
        await self._pools.change(request.hostname, request.sourcePool, request.destinationPool)
        return v1alpha.ChangeHostPoolResponse()

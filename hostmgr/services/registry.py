"""HostRegistryService: lost hosts are forgotten, and the Mesos clusters are listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.known_hosts import KnownHostKeeper
from peloton.membership.interface import Membership, Role
from peloton.private.hostmgr.registry import registry_pb2 as pb
from peloton.private.hostmgr.registry import registry_pb2_grpc
from peloton.rpc.clusters import Clusters


class HostRegistry(registry_pb2_grpc.HostRegistryServiceServicer):
    """Serve what is remembered of hosts and clusters."""

    def __init__(
        self,
        known: KnownHostKeeper,
        pools: HostPoolManager,
        clusters: Clusters,
        membership: Membership,
        own: str,
    ) -> None:
        """`own` is the name of the Mesos cluster of this host manager."""
        self._known = known
        self._pools = pools
        self._clusters = clusters
        self._membership = membership
        self._own = own

    async def ForgetHosts(self, request: pb.ForgetHostsRequest, context: Any) -> pb.ForgetHostsResponse:
        """Forget lost hosts, and take them out of their host pools."""
        names: Sequence[str] = list(dict.fromkeys(request.hostnames))
        await self._known.forget(names)
        for name in names:
            await self._pools.leave(name)
        return pb.ForgetHostsResponse()

    async def ListClusters(self, request: pb.ListClustersRequest, context: Any) -> pb.ListClustersResponse:
        """Return the Mesos clusters with the addresses of their host managers."""
        answer = pb.ListClustersResponse(own=self._own)
        for name in self._clusters.names():
            leader = self._membership.leader(Role.HOSTMGR, name)
            answer.clusters.add(name=name, address="" if leader is None else leader.target)
        return answer

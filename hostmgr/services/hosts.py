"""HostService of v0 and v1alpha: hosts as operators see them, and their maintenance."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.host_mover import HostMover
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.maintenance import Maintenance
from hostmgr.services.host_pools import HostPoolMethods, HostPoolMethodsV1Alpha
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v1alpha.host import host_pb2 as host_v1alpha
from peloton.api.v1alpha.host.svc import host_svc_pb2 as svc_v1alpha
from peloton.errors import InvalidArgument
from peloton.model.host import HostInfo
from peloton.model.states import HostState
from peloton.wire.constraint import labels_to
from peloton.wire.v1alpha.constraint import labels_to as labels_to_v1alpha


class _Hosts:
    """What both versions of the service do."""

    def __init__(self, cluster: Cluster, maintenance: Maintenance) -> None:
        self._cluster = cluster
        self._maintenance = maintenance

    def found(self, states: Collection[int]) -> list[HostInfo]:
        """Return hosts, registered or in maintenance, that are in certain states; without states, all."""
        listed = {record.hostname: record for record in self._maintenance.listed()}
        up = {
            agent.hostname: HostInfo(agent.hostname, agent.ip, HostState.UP, HostState.UP, agent.labels)
            for agent in self._cluster.agents.values()
        }
        wanted = set(map(int, states))
        found = {name: host for name, host in {**up, **listed}.items() if not wanted or host.state in wanted}
        return [found[name] for name in sorted(found)]

    async def start(self, hostnames: list[str]) -> None:
        """Begin maintenance. Raises InvalidArgument, Conflict."""
        await self._maintenance.start(hostnames)

    async def complete(self, hostnames: list[str]) -> None:
        """End maintenance. Raises InvalidArgument, NotFound."""
        await self._maintenance.complete(hostnames)


class HostService(HostPoolMethods):
    """Serve v0 HostService: maintenance here, host pools in the base."""

    def __init__(
        self, cluster: Cluster, maintenance: Maintenance, pools: HostPoolManager, mover: HostMover
    ) -> None:
        super().__init__(pools, mover)
        self._hosts = _Hosts(cluster, maintenance)

    async def QueryHosts(
        self, request: host_svc_pb2.QueryHostsRequest, context: Any
    ) -> host_svc_pb2.QueryHostsResponse:
        """Return the hosts in certain states; without states, all."""
        found = self._hosts.found(request.host_states)
        return host_svc_pb2.QueryHostsResponse(
            host_infos=[
                host_pb2.HostInfo(
                    hostname=host.hostname,
                    ip=host.ip,
                    state=host_pb2.HostState.ValueType(host.state),
                    goal_state=host_pb2.HostState.ValueType(host.goal),
                    labels=labels_to(host.labels),
                    current_pool=self._pools.pool_of(host.hostname),
                    desired_pool=self._pools.destination_of(host.hostname),
                )
                for host in found
            ]
        )

    async def StartMaintenance(
        self, request: host_svc_pb2.StartMaintenanceRequest, context: Any
    ) -> host_svc_pb2.StartMaintenanceResponse:
        """Begin the maintenance of a host; a repetition changes nothing. An unknown host is ABORTED."""
        await self._hosts.start(_names(request.hostname, request.hostnames))
        return host_svc_pb2.StartMaintenanceResponse(hostname=request.hostname)

    async def CompleteMaintenance(
        self, request: host_svc_pb2.CompleteMaintenanceRequest, context: Any
    ) -> host_svc_pb2.CompleteMaintenanceResponse:
        """End the maintenance of a host that is DOWN; any other is NOT_FOUND."""
        await self._hosts.complete(_names(request.hostname, request.hostnames))
        return host_svc_pb2.CompleteMaintenanceResponse(hostname=request.hostname)


class HostServiceV1Alpha(HostPoolMethodsV1Alpha):
    """Serve v1alpha HostService: maintenance here, host pools in the base."""

    def __init__(self, cluster: Cluster, maintenance: Maintenance, pools: HostPoolManager) -> None:
        super().__init__(pools)
        self._hosts = _Hosts(cluster, maintenance)

    async def QueryHosts(
        self, request: svc_v1alpha.QueryHostsRequest, context: Any
    ) -> svc_v1alpha.QueryHostsResponse:
        """Return the hosts in certain states; without states, all."""
        found = self._hosts.found(request.host_states)
        return svc_v1alpha.QueryHostsResponse(
            host_infos=[
                host_v1alpha.HostInfo(
                    hostname=host.hostname,
                    ip=host.ip,
                    state=host_v1alpha.HostState.ValueType(host.state),
                    goal_state=host_v1alpha.HostState.ValueType(host.goal),
                    labels=labels_to_v1alpha(host.labels),
                )
                for host in found
            ]
        )

    async def StartMaintenance(
        self, request: svc_v1alpha.StartMaintenanceRequest, context: Any
    ) -> svc_v1alpha.StartMaintenanceResponse:
        """Begin the maintenance of a host; a repetition changes nothing. An unknown host is ABORTED."""
        await self._hosts.start(_names(request.hostname, request.hostnames))
        return svc_v1alpha.StartMaintenanceResponse(hostname=request.hostname)

    async def CompleteMaintenance(
        self, request: svc_v1alpha.CompleteMaintenanceRequest, context: Any
    ) -> svc_v1alpha.CompleteMaintenanceResponse:
        """End the maintenance of a host that is DOWN; any other is NOT_FOUND."""
        await self._hosts.complete(_names(request.hostname, request.hostnames))
        return svc_v1alpha.CompleteMaintenanceResponse(hostname=request.hostname)


def _names(hostname: str, hostnames: Collection[str]) -> list[str]:
    """Return the hosts of a request, each once. Raises InvalidArgument for none, or an empty name."""
    names = list(dict.fromkeys([*([hostname] if hostname else []), *hostnames]))
    if not names or not all(names):
        raise InvalidArgument("hostname", hostname, "the name of a host")
    return names

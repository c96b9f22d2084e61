"""HostService of v0 and v1alpha: hosts as operators see them, and their maintenance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from hostmgr.core.state.columns import Agent
from hostmgr.drivers.agents import FollowedAgents
from hostmgr.drivers.host_mover import HostMover
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.known_hosts import KnownHostKeeper
from hostmgr.drivers.maintenance import Maintenance
from hostmgr.services.host_pools import HostPoolMethods, HostPoolMethodsV1Alpha
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v1alpha.host import host_pb2 as host_v1alpha
from peloton.api.v1alpha.host.svc import host_svc_pb2 as svc_v1alpha
from peloton.errors import InvalidArgument
from peloton.identity.principal import author
from peloton.model.host import HostInfo
from peloton.model.states import HostState
from peloton.rpc.server import serialized
from peloton.wire.host_list import Held, hosts_to, lost_hosts_to
from peloton.wire.v1alpha.constraint import labels_to as labels_to_v1alpha


class _Hosts:
    """What both versions of the service do."""

    def __init__(self, cluster: FollowedAgents, maintenance: Maintenance) -> None:
        self._cluster = cluster
        self._maintenance = maintenance
        self._of_agents: dict[str, tuple[Agent, HostInfo]] = {}

    def found(self, states: Collection[int]) -> list[HostInfo]:
        """Return hosts, registered or in maintenance, that are in certain states; without states, all."""
        listed = {record.hostname: record for record in self._maintenance.listed()}
        wanted = set(map(int, states))
        known = {**self._up(), **listed}
        found = (known[name] for name in sorted(known))
        return [host for host in found if host.state in wanted] if wanted else list(found)

    def _up(self) -> Mapping[str, HostInfo]:
        """Return the hosts of all agents as if none were in maintenance, each made once for an agent."""
        before = self._of_agents
        self._of_agents = {}
        for agent in self._cluster.sight.agents.values():
            known = before.get(agent.id)
            self._of_agents[agent.id] = (
                known if known is not None and known[0] is agent else (agent, _up(agent))
            )
        return {agent.hostname: host for agent, host in self._of_agents.values()}

    async def start(self, hostnames: list[str]) -> None:
        """Begin maintenance. Raises InvalidArgument, Conflict."""
        await self._maintenance.start(hostnames, author())

    async def complete(self, hostnames: list[str]) -> None:
        """End maintenance. Raises InvalidArgument, NotFound.

        Whoever asks for the hosts afterwards gets them as the master has them now: an agent may have been
        stopped since it was asked last.
        """
        await self._maintenance.complete(hostnames)
        await self._cluster.try_to_read()


def _up(agent: Agent) -> HostInfo:
    return HostInfo(agent.hostname, agent.ip, HostState.UP, HostState.UP, agent.labels)


class HostService(HostPoolMethods):
    """Serve v0 HostService: maintenance here, host pools in the base."""

    def __init__(
        self,
        cluster: FollowedAgents,
        maintenance: Maintenance,
        pools: HostPoolManager,
        mover: HostMover,
        known: KnownHostKeeper | None = None,
        held: Callable[[str], tuple[Held, ...]] = lambda hostname: (),
    ) -> None:
        """Without `known`, no host is shown as lost. `held` says for whom room of a host is held."""
        super().__init__(pools, mover)
        self._known = known
        self._held = held
        self._hosts = _Hosts(cluster, maintenance)

    async def QueryHosts(
        self, request: host_svc_pb2.QueryHostsRequest, context: Any
    ) -> host_svc_pb2.QueryHostsResponse:
        """Return the hosts in certain states, without states all; lost ones too where they are wanted."""
        pools = self._pools.hosts
        lost = self._known.lost() if request.include_lost and self._known is not None else ()
        names = {host.hostname for host in lost}
        found = hosts_to(
            (
                host,
                pools.pool_of(host.hostname),
                pools.destination_of(host.hostname),
                self._held(host.hostname),
            )
            for host in self._hosts.found(request.host_states)
            if host.hostname not in names
        )
        gone = lost_hosts_to((host, pools.pool_of(host.hostname)) for host in lost)
        return serialized(host_svc_pb2.QueryHostsResponse, found + gone)

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

    def __init__(self, cluster: FollowedAgents, maintenance: Maintenance, pools: HostPoolManager) -> None:
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

"""The host managers over gRPC: all translation of what a resource manager calls for, and of the answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from peloton.calls.resmgr import (
    CHECK_GANGS,
    CLUSTER_CAPACITY,
    FIND_HOSTS,
    GET_DRAINING_HOSTS,
    GET_HOST_GAINS,
    GET_HOST_POOL_CAPACITY,
    GET_MESOS_AGENT_INFO,
    INIT_STREAM,
    MARK_HOST_DRAINED,
    RELEASE_HOST_OFFERS,
    SHORTEN_CLAIMS,
    WAIT_FOR_EVENTS,
)
from peloton.calls.rpc import Caller
from peloton.errors import PelotonError, Refused, Unavailable
from peloton.model.host_class import HostClass
from peloton.model.hostcounts import MATCH
from peloton.model.resources import Resources
from peloton.model.shortage import Shortage
from peloton.private.eventstream import eventstream_pb2
from peloton.private.hostmgr.claims import claims_pb2
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.rpc.clusters import ALONE, ClusterClient
from peloton.wire.feasibility import gains_from, shortage_from
from peloton.wire.hosts import claim_to
from resmgr.core.state.classes import ClassCapacity
from resmgr.core.state.needs import Shape
from resmgr.core.state.placements import Handover
from resmgr.ports import CALL_SECONDS, Amount, Found, Gains, StateBatch, StreamLost
from resmgr.wire.statuses import states_from
from resmgr.wire.tasks import shape_to

STREAM_CLIENT = "resmgr"
"""Our name as a reader of the stream of statuses."""


class HostmgrClient:
    """The host manager of one Mesos cluster: `resmgr.ports.Hostmgr`."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def capacity(self, timeout: float, retry: bool = True) -> Amount:
        """Return the capacity of one cluster."""
        request = hostsvc_pb2.ClusterCapacityRequest()
        answer = await self._client.call(CLUSTER_CAPACITY, request, timeout=timeout, retry=retry)
        if answer.HasField("error"):
            raise Unavailable(f"hostmgr: {answer.error.clusterUnavailable.message}")
        classes = {
            HostClass(each.gpu, each.exclusive, each.hostPool): ClassCapacity(
                _resources(each.physicalResources), _resources(each.physicalSlackResources).cpu
            )
            for each in answer.classes
        }
        normal, slack = _resources(answer.physicalResources), _resources(answer.physicalSlackResources)
        return Amount(normal, slack, await self._is_pooled(timeout, retry), classes)

    async def _is_pooled(self, timeout: float, retry: bool) -> bool:
        """Return whether tasks are confined to the host pools of a cluster."""
        request = hostsvc_pb2.GetHostPoolCapacityRequest()
        try:
            answer = await self._client.call(GET_HOST_POOL_CAPACITY, request, timeout=timeout, retry=retry)
        except Refused:  # an older hostmgr, without pools
            return False
        return not answer.not_in_use

    async def pools_with_hosts(self, timeout: float) -> Collection[str]:
        """Return the host pools that have hosts, of all clusters."""
        request = hostsvc_pb2.GetHostPoolCapacityRequest()
        answer = await self._client.call(GET_HOST_POOL_CAPACITY, request, timeout=timeout)
        return {
            pool.poolName for pool in answer.pools if any(each.capacity for each in pool.physicalCapacity)
        }

    async def shorten_claims(self, older_than: float) -> int:
        """Let claims that are older than `older_than` seconds end early; return their number."""
        # Without a repetition in the call, for the age counts from this moment.
        request = claims_pb2.ShortenClaimsRequest(older_than=older_than)
        return (await self._client.call(SHORTEN_CLAIMS, request, retry=False)).shortened

    async def draining(self, wait: float) -> Sequence[str]:
        """Return the names of draining hosts, waiting for some."""
        request = hostsvc_pb2.GetDrainingHostsRequest(timeout=round(wait * 1000))
        answer = await self._client.call(GET_DRAINING_HOSTS, request, timeout=CALL_SECONDS, waits=wait)
        return answer.hostnames

    async def mark_drained(self, hostname: str) -> None:
        """Report a host without runs. Raises Refused where hostmgr knows better."""
        await self._client.call(MARK_HOST_DRAINED, hostsvc_pb2.MarkHostDrainedRequest(hostname=hostname))

    async def open_stream(self, timeout: float) -> tuple[str, int]:
        """Return the id of the stream and the offset of its first event."""
        request = eventstream_pb2.InitStreamRequest(clientName=STREAM_CLIENT)
        answer = await self._client.call(INIT_STREAM, request, timeout=timeout)
        if answer.HasField("error"):
            raise PelotonError(f"hostmgr refused: {answer.error.clientUnsupported.message}")
        return answer.streamID, answer.minOffset

    async def states(self, stream: str, begin: int, limit: int, wait: float) -> StateBatch | None:
        """Return events from an offset on, waiting for some; None: there are none. Raises StreamLost."""
        request = eventstream_pb2.WaitForEventsRequest(
            streamID=stream,
            purgeOffset=begin,
            beginOffset=begin,
            limit=limit,
            timeoutMs=round(wait * 1000),
            clientName=STREAM_CLIENT,
        )
        answer = await self._client.call(
            WAIT_FOR_EVENTS, request, timeout=CALL_SECONDS, retry=False, waits=wait
        )
        if answer.HasField("error"):
            raise StreamLost(" ".join(str(answer.error).split()))
        if not answer.events:
            return None
        return StateBatch(len(answer.events), answer.events[-1].offset + 1, *states_from(answer.events))


class HostmgrsClient(HostmgrClient):
    """The host managers of all Mesos clusters, as if there were one: `resmgr.ports.Hostmgrs`."""

    def __init__(self, client: Caller | ClusterClient) -> None:
        """`client` calls the host managers of all clusters, or the one of a cluster without a name."""
        super().__init__(client)
        self._by_cluster = client if isinstance(client, ClusterClient) else None

    def clusters(self) -> Sequence[str]:
        """Return the names of the clusters."""
        return ALONE if self._by_cluster is None else self._by_cluster.clusters.names()

    def of(self, cluster: str) -> HostmgrClient:
        """Return the host manager of one cluster."""
        return self if self._by_cluster is None else HostmgrClient(self._by_cluster.of(cluster))

    async def release(self, claims: Sequence[Handover]) -> None:
        """Release the claims of placements."""
        offers = [claim_to(each.host, each.agent_id, each.offer_id) for each in claims]
        await self._client.call(RELEASE_HOST_OFFERS, hostsvc_pb2.ReleaseHostOffersRequest(hostOffers=offers))

    async def gains(self, since: str) -> Gains:
        """Return what hosts have gained since a version."""
        request = feasibility_pb2.GetHostGainsRequest(hosts_version=since)
        answer = await self._client.call(GET_HOST_GAINS, request)
        return Gains(answer.hosts_version, gains_from(answer))

    async def check(
        self, shapes: Sequence[Shape], open_pools: frozenset[str], timeout: float = CALL_SECONDS
    ) -> Sequence[Shortage | None]:
        """Return for each shape why such a gang fits on no hosts; nothing is confined to `open_pools`."""
        request = feasibility_pb2.CheckGangsRequest(gangs=[shape_to(each, open_pools) for each in shapes])
        answer = await self._client.call(CHECK_GANGS, request, timeout=timeout)
        return [
            shortage_from(verdict.shortage) if verdict.HasField("shortage") else None
            for verdict in answer.verdicts
        ]

    async def find(self, shape: Shape, most: int, timeout: float) -> Found:
        """Return how many hosts match a shape of one task, with the names of up to `most` of them."""
        [member] = shape_to(shape).members
        request = feasibility_pb2.FindHostsRequest(filter=member.filter)
        request.filter.quantity.maxHosts = most
        answer = await self._client.call(FIND_HOSTS, request, timeout=timeout)
        return Found(answer.counts[MATCH], [host.hostname for host in answer.hosts])

    async def hostnames(self) -> Sequence[str]:
        """Return the names of all registered hosts."""
        answer = await self._client.call(GET_MESOS_AGENT_INFO, hostsvc_pb2.GetMesosAgentInfoRequest())
        return [agent.agent_info.hostname for agent in answer.agents]


def _resources(wires: Iterable[hostsvc_pb2.Resource]) -> Resources:
    amounts = {wire.kind: wire.capacity for wire in wires}
    return Resources.of(*(amounts.get(kind, 0.0) for kind in ("cpu", "memory", "disk", "gpu")))

"""HostManagerService v1alpha: leases on hosts, launches and kills of pods, over the same core as v0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.claims.holds import HoldRequest
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.kills import kill, kill_and_hold
from hostmgr.services.pod_events import pod_events
from hostmgr.services.summary import host_summary
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.resources import KINDS, MILLI, Resources, checked_milli
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2 as pb
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2_grpc
from peloton.rpc.claimed import require_runs, shards
from peloton.rpc.server import caller, serialized
from peloton.wire.constraint import constraint_from
from peloton.wire.host_list import host_cache_to
from peloton.wire.launch import launch_from
from peloton.wire.v1alpha.constraint import v0_constraint
from peloton.wire.v1alpha.launch import instance_of, launchable_task
from peloton.wire.v1alpha.paths import v1alpha_error

_Name = hostmgr_pb2.HostFilterResult
RESULTS: Mapping[Result, _Name.ValueType] = {
    Result.MATCH: _Name.HOST_FILTER_MATCH,
    Result.NO_OFFER: _Name.HOST_FILTER_INSUFFICIENT_RESOURCES,
    Result.INSUFFICIENT_OFFER_RESOURCES: _Name.HOST_FILTER_INSUFFICIENT_RESOURCES,
    Result.INSUFFICIENT_RESOURCES: _Name.HOST_FILTER_INSUFFICIENT_RESOURCES,
    Result.MISMATCH_CONSTRAINTS: _Name.HOST_FILTER_MISMATCH_CONSTRAINTS,
    Result.MISMATCH_GPU: _Name.HOST_FILTER_MISMATCH_GPU,
    Result.SCARCE_RESOURCES: _Name.HOST_FILTER_MISMATCH_GPU,
    Result.MISMATCH_STATUS: _Name.HOST_FILTER_MISMATCH_STATUS,
    Result.HELD: _Name.HOST_FILTER_MISMATCH_STATUS,
    Result.TOO_MANY_STARTING: _Name.HOST_FILTER_MISMATCH_STATUS,
    Result.FAILED_LAUNCHES: _Name.HOST_FILTER_MISMATCH_STATUS,
    Result.MISMATCH_MAX_HOST_LIMIT: _Name.HOST_FILTER_MISMATCH_MAX_HOST_LIMIT,
}
"""v1alpha has fewer results than v0: the nearest one of each."""
_AMOUNTS = ("cpu_limit", "mem_limit_mb", "disk_limit_mb", "gpu_limit")
"""Fields of a ResourceSpec, in the order of `Resources`."""


class Leases(hostmgr_svc_pb2_grpc.HostManagerServiceServicer):
    """Serve HostManagerService. Failures are gRPC statuses."""

    def __init__(self, manager: HostManager, cluster: ClusterSight, reconciliation: Reconciliation) -> None:
        self._manager = manager
        self._cluster = cluster
        self._reconciliation = reconciliation

    async def AcquireHosts(self, request: pb.AcquireHostsRequest, context: Any) -> pb.AcquireHostsResponse:
        """Claim hosts that match the filter. Raises InvalidArgument."""
        want = _filter(request.filter)
        acquired = self._manager.acquire(want, caller(context).instance)
        counts: Counter[str] = Counter()
        for result, count in acquired.counts.items():
            counts[_Name.Name(RESULTS[result])] += count
        answer = pb.AcquireHostsResponse(filter_result_counts=counts)
        for claim in acquired.claims:
            answer.hosts.add(
                host_summary=host_summary(self._manager.hosts, claim.agent_id, claim.hostname, want.held_for),
                lease_id=hostmgr_pb2.LeaseID(value=claim.id),
            )
        return answer

    async def TerminateLeases(
        self, request: pb.TerminateLeasesRequest, context: Any
    ) -> pb.TerminateLeasesResponse:
        """End leases. One that has ended is no error. Raises InvalidArgument, ending none."""
        if not request.leases:
            raise InvalidArgument("leases", "[]", "at least one lease")
        hosts = self._manager.hosts
        for i, pair in enumerate(request.leases):
            claim = hosts.claims.get(pair.lease_id.value)
            if claim is not None and claim.hostname != pair.hostname:
                raise InvalidArgument(
                    f"leases[{i}].hostname", pair.hostname, f"{claim.hostname}, the host of this lease"
                )
        for pair in request.leases:
            hosts.claims.release(pair.lease_id.value)
        return pb.TerminateLeasesResponse()

    async def LaunchPods(self, request: pb.LaunchPodsRequest, context: Any) -> pb.LaunchPodsResponse:
        """Launch pods on a leased host; the same call again changes nothing.

        Raises InvalidArgument and InvalidOffers (FAILED_PRECONDITION), which end the lease, and Unavailable
        and, for a job of a shard that the caller does not name, Fenced without any effect.
        """
        if not request.pods:
            raise InvalidArgument("pods", "[]", "at least one pod")
        require_runs(shards(context), (pod.pod_id.value for pod in request.pods))
        self._manager.launch(
            request.lease_id.value,
            request.hostname,
            "",
            [pod.pod_id.value for pod in request.pods],
            (launch_from(launchable_task(pod, f"pods[{i}]")) for i, pod in enumerate(request.pods)),
        )
        await self._manager.room()
        return pb.LaunchPodsResponse()

    async def KillPods(self, request: pb.KillPodsRequest, context: Any) -> pb.KillPodsResponse:
        """Kill runs. Raises InvalidArgument, Refused while kills are disabled, Unavailable, and Fenced."""
        if not request.pod_ids:
            raise InvalidArgument("pod_ids", "[]", "at least one run")
        for i, each in enumerate(request.pod_ids):
            instance_of(each.value, f"pod_ids[{i}].value")
        runs = [each.value for each in request.pod_ids]
        require_runs(shards(context), runs)
        await kill(self._manager, self._reconciliation, runs)
        return pb.KillPodsResponse()

    async def KillAndHoldPods(
        self, request: pb.KillAndHoldPodsRequest, context: Any
    ) -> pb.KillAndHoldPodsResponse:
        """Kill runs, and hold a whole host for the next run of each. Raises as KillPods does."""
        if not request.entries:
            raise InvalidArgument("entries", "[]", "at least one run with the host to hold")
        runs = {}
        for i, each in enumerate(request.entries):
            if not each.hostToHold:
                raise InvalidArgument(f"entries[{i}].hostToHold", "", "the name of a host")
            instance = instance_of(each.pod_id.value, f"entries[{i}].pod_id.value")
            runs[each.pod_id.value] = HoldRequest(instance, each.hostToHold)
        require_runs(shards(context), runs)
        await kill_and_hold(self._manager, self._reconciliation, runs)
        return pb.KillAndHoldPodsResponse()

    async def ClusterCapacity(
        self, request: pb.ClusterCapacityRequest, context: Any
    ) -> pb.ClusterCapacityResponse:
        """Return the sums over all agents, or the quota of the role. Raises Unavailable."""
        if not self._cluster.known:
            raise Unavailable(self._cluster.unhealthy)
        capacity = self._manager.hosts.agents.capacity
        total = dict(zip(KINDS, capacity.total.values(), strict=True))
        total.update(self._cluster.quota)
        return pb.ClusterCapacityResponse(
            allocation=_amounts(capacity.allocated),
            capacity=[_amount(kind, value) for kind, value in total.items()],
            slack_allocation=_amounts(Resources(cpu=capacity.allocated_slack_cpu)),
            slack_capacity=_amounts(Resources(cpu=capacity.slack_cpu)),
        )

    async def GetEvents(self, request: pb.GetEventsRequest, context: Any) -> pb.GetEventsResponse:
        """Return the events that the ring holds."""
        ring = self._manager.status_updates.ring
        return pb.GetEventsResponse(events=pod_events(self._manager, ring.read(ring.first, ring.capacity)))

    async def GetHostCache(self, request: pb.GetHostCacheRequest, context: Any) -> pb.GetHostCacheResponse:
        """Return the hosts by name: their capacity, and the part of it that is not offered."""
        found = host_cache_to(
            (hostname, claim.name.lower(), allocated, total)
            for hostname, claim, allocated, total in self._manager.hosts.table.listed()
        )
        return serialized(pb.GetHostCacheResponse, found)


def _filter(wire: hostmgr_pb2.HostFilter) -> HostFilter:
    """Translate a filter. Raises InvalidArgument for an incomplete constraint and for invalid amounts."""
    minimum = wire.resource_constraint.minimum
    path = "filter.resource_constraint.minimum"
    constraint = None
    if wire.HasField("scheduling_constraint"):
        try:
            v0 = v0_constraint(wire.scheduling_constraint, "filter.scheduling_constraint")
            constraint = constraint_from(v0, "filter.scheduling_constraint")
        except InvalidArgument as error:
            raise v1alpha_error(error) from None
    return HostFilter(
        minimum=Resources(*(checked_milli(f"{path}.{name}", getattr(minimum, name)) for name in _AMOUNTS)),
        ports=wire.resource_constraint.num_ports,
        constraint=constraint,
        max_hosts=wire.max_hosts,
        preferred=tuple(host.hostname for host in wire.hint.host_hint),
        held_for=frozenset(
            host.pod_id.value.rpartition("-")[0] for host in wire.hint.host_hint if host.pod_id.value
        ),
    )


def _amounts(amounts: Resources) -> Iterable[hostmgr_pb2.Resource]:
    return [_amount(kind, value) for kind, value in zip(KINDS, amounts.values(), strict=True)]


def _amount(kind: str, value: int) -> hostmgr_pb2.Resource:
    return hostmgr_pb2.Resource(kind=kind, capacity=value / MILLI)

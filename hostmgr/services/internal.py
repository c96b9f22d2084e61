"""InternalHostService: hosts for placement, launches and kills for jobmgr, capacity for resmgr."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.cluster_manager.kills import CALLS_AT_ONCE
from hostmgr.core.state.capacity import within_quota
from hostmgr.core.state.host_filter import HostFilter, Ranking, Result
from hostmgr.drivers.host_pools import HostPoolManager
from hostmgr.drivers.maintenance import Maintenance
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.holds import HeldTexts, hold_from
from hostmgr.services.internal_maintenance import MaintenanceMethods
from hostmgr.services.internal_operations import OperationMethods
from hostmgr.services.internal_watches import WatchMethods
from hostmgr.services.kills import kill, kill_and_hold
from hostmgr.services.offers import encoded_host_offer, host_info
from hostmgr.services.query import hosts_by_query, runs_by_host_state
from hostmgr.services.reserving import completed_reservations, reserve_hosts
from hostmgr.services.watches import Watches
from peloton.errors import InvalidArgument, Refused, Unavailable
from peloton.model.resources import KINDS, MILLI, Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.rpc.claimed import divided, require_runs, run_refusal, shards, task_refusal
from peloton.rpc.server import caller, serialized
from peloton.wire.constraint import constraint_from
from peloton.wire.hosts import acquired_to, agents_to, offers_to
from peloton.wire.ids import run_id
from peloton.wire.launch import launch_from
from peloton.wire.task import resources_from

_RANKINGS = {
    pb.FilterHint.FILTER_HINT_RANKING_RANDOM: Ranking.FIRST_FIT,
    pb.FilterHint.FILTER_HINT_RANKING_LEAST_AVAILABLE_FIRST: Ranking.DEFRAG,
    pb.FilterHint.FILTER_HINT_RANKING_LOAD_AWARE: Ranking.LOAD_AWARE,
}


class InternalHosts(WatchMethods, OperationMethods, MaintenanceMethods):
    """Serve InternalHostService: claims, tasks and queries here, the other methods in the bases."""

    def __init__(
        self,
        manager: HostManager,
        cluster: ClusterSight,
        reconciliation: Reconciliation,
        watches: Watches,
        maintenance: Maintenance,
        pools: HostPoolManager | None = None,
    ) -> None:
        WatchMethods.__init__(self, watches)
        OperationMethods.__init__(self, manager)
        MaintenanceMethods.__init__(self, maintenance)
        self._pools = pools
        self._cluster = cluster
        self._reconciliation = reconciliation
        self._held = HeldTexts(manager)

    # Claims.

    async def AcquireHostOffers(
        self, request: pb.AcquireHostOffersRequest, context: Any
    ) -> pb.AcquireHostOffersResponse:
        """Claim hosts that match the filter. The answer is encoded already."""
        try:
            want = filter_from(request.filter)
        except InvalidArgument as error:
            answer = pb.AcquireHostOffersResponse()
            answer.error.invalidHostFilter.message = str(error)
            answer.error.invalidHostFilter.invalid.CopyFrom(request.filter)
            return answer
        acquired = self._manager.acquire(want, caller(context).instance)
        found = acquired_to(
            [
                encoded_host_offer(self._manager, claim, want.revocable, want.held_for)
                for claim in acquired.claims
            ],
            {reason.value: count for reason, count in acquired.counts.items()},
            self._held.now() if Result.HELD in acquired.counts else (),
        )
        return serialized(pb.AcquireHostOffersResponse, found)

    async def ReleaseHostOffers(
        self, request: pb.ReleaseHostOffersRequest, context: Any
    ) -> pb.ReleaseHostOffersResponse:
        """End claims. A claim that has ended already is no error."""
        for offer in request.hostOffers:
            self._manager.hosts.claims.release(offer.id.value)
        return pb.ReleaseHostOffersResponse()

    async def GetHosts(self, request: pb.GetHostsRequest, context: Any) -> pb.GetHostsResponse:
        """Return hosts whose total resources match, free or not, without claiming them."""
        try:
            want = filter_from(request.filter)
        except InvalidArgument as error:
            answer = pb.GetHostsResponse()
            answer.error.invalidHostFilter.message = str(error)
            return answer
        table = self._manager.hosts.table
        mask, _ = table.match(want, offers_needed=False)
        rows = table.ranked(mask, want, want.ranking or Ranking.FIRST_FIT)
        chosen = rows[: want.max_hosts] if want.max_hosts else rows
        agents, agent_ids = self._cluster.agents, (table.agent_ids[int(row)] for row in chosen)
        return pb.GetHostsResponse(hosts=[host_info(self._manager, agents, each) for each in agent_ids])

    # Reservations.

    async def ReserveHosts(self, request: pb.ReserveHostsRequest, context: Any) -> pb.ReserveHostsResponse:
        """Reserve the host with the fewest tasks of those named for a task, for 30 minutes at most."""
        return reserve_hosts(self._manager, self._cluster.agents, request.reservation)

    async def GetCompletedReservations(
        self, request: pb.GetCompletedReservationRequest, context: Any
    ) -> pb.GetCompletedReservationResponse:
        """Hand out reserved hosts whose offers suffice now, each once, with a claim on the host."""
        return completed_reservations(self._manager, self._cluster.agents)

    # Tasks.

    async def LaunchTasks(self, request: pb.LaunchTasksRequest, context: Any) -> pb.LaunchTasksResponse:
        """Launch tasks on a claimed host.

        The call fails with FAILED_PRECONDITION `invalid offers` where the claim is not on this host or was
        used for other tasks. It fails without any effect with UNAVAILABLE while there is no connection to
        Mesos, and with ABORTED for a job of a shard that the caller does not name.
        """
        if not request.tasks:
            raise InvalidArgument("tasks", "[]", "at least one task")
        require_runs(shards(context), (task.taskId.value for task in request.tasks))
        self._manager.launch(
            request.id.value,
            request.hostname,
            request.agentId.value,
            [task.taskId.value for task in request.tasks],
            map(launch_from, request.tasks),
        )
        await self._manager.room()
        return pb.LaunchTasksResponse()

    async def KillTasks(self, request: pb.KillTasksRequest, context: Any) -> pb.KillTasksResponse:
        """Kill runs, known here or not: Mesos reports the states of unknown ones, as in a reconciliation.

        Runs of jobs that are not the caller's are left alone, and named in the answer.
        """
        answer = pb.KillTasksResponse()
        if not request.taskIds:
            answer.error.invalidTaskIDs.message = "taskIds: [] is not at least one run"
            return answer
        mine = shards(context)
        own, others = divided(mine, request.taskIds, lambda each: run_refusal(mine, each.value))
        for each, why in others:
            answer.error.killFailure.message = why
            answer.error.killFailure.taskIds.append(each)
        try:
            runs = [each.value for each in own]
            await kill(self._manager, self._reconciliation, runs, request.maintenance)
        except Refused as error:
            answer.error.killFailure.message = str(error)
            answer.error.killFailure.taskIds.extend(own)
        return answer

    async def KillAndReserveTasks(
        self, request: pb.KillAndReserveTasksRequest, context: Any
    ) -> pb.KillAndReserveTasksResponse:
        """Kill runs, and hold room of a host for the next run of each: what that one asks for.

        Without a room the whole host is held. A hold lasts until the instance is launched anywhere,
        ReleaseHostsHeldForTasks, or for 3 minutes. Runs of jobs that are not the caller's are left alone, and
        named in the answer. Raises InvalidArgument for invalid amounts.
        """
        answer = pb.KillAndReserveTasksResponse()
        wrong = [each for each in request.entries if not _is_complete(each)]
        if wrong or not request.entries:
            answer.error.invalidTaskIDs.message = (
                "entries: each needs taskId, id (the instance of that run) and hostToReserve, at least one"
            )
            answer.error.invalidTaskIDs.taskIds.extend(
                each.taskId for each in wrong if each.HasField("taskId")
            )
            return answer
        mine = shards(context)
        own, others = divided(
            mine,
            [(each, hold_from(each, i)) for i, each in enumerate(request.entries)],
            lambda entry: run_refusal(mine, entry[0].taskId.value),
        )
        for (each, _), why in others:
            answer.error.killFailure.message = why
            answer.error.killFailure.taskIds.append(each.taskId)
        try:
            runs = {each.taskId.value: hold for each, hold in own}
            maintained = frozenset(each.taskId.value for each, _ in own if each.maintenance)
            await kill_and_hold(self._manager, self._reconciliation, runs, maintained)
        except Refused as error:
            answer.error.killFailure.message = str(error)
            answer.error.killFailure.taskIds.extend(each.taskId for each, _ in own)
        return answer

    async def ReleaseHostsHeldForTasks(
        self, request: pb.ReleaseHostsHeldForTasksRequest, context: Any
    ) -> pb.ReleaseHostsHeldForTasksResponse:
        """End what is held for instances. An instance for which nothing is held is no error.

        What is held for jobs that are not the caller's stays; the answer says so.
        """
        answer, mine = pb.ReleaseHostsHeldForTasksResponse(), shards(context)
        own, others = divided(mine, request.ids, lambda each: task_refusal(mine, each.value))
        self._manager.hosts.holds.release(each.value for each in own)
        for _, why in others:
            answer.error.message = why
        return answer

    async def ShutdownExecutors(
        self, request: pb.ShutdownExecutorsRequest, context: Any
    ) -> pb.ShutdownExecutorsResponse:
        """Shut executors down, but for those of jobs that are not the caller's; the answer names these."""
        answer = pb.ShutdownExecutorsResponse()
        wrong = [each for each in request.executors if not (each.executorId.value and each.agentId.value)]
        if wrong or not request.executors:
            answer.error.invalidExecutors.message = (
                "executors: each needs executorId and agentId, at least one"
            )
            answer.error.invalidExecutors.executors.extend(wrong)
            return answer
        mine = shards(context)
        own, others = divided(mine, request.executors, lambda each: run_refusal(mine, each.executorId.value))
        for each, why in others:
            answer.error.shutdownFailure.message = why
            answer.error.shutdownFailure.executors.append(each)
        executors = [(each.executorId.value, each.agentId.value) for each in own]
        for start in range(0, len(executors), CALLS_AT_ONCE):
            self._manager.shut_down(executors[start : start + CALLS_AT_ONCE])
            await self._manager.room()
        return answer

    async def DisableKillTasks(
        self, request: pb.DisableKillTasksRequest, context: Any
    ) -> pb.DisableKillTasksResponse:
        """Refuse kills until the daemon is restarted."""
        self._manager.core.kills.disabled = True
        return pb.DisableKillTasksResponse()

    # Queries.

    async def ClusterCapacity(
        self, request: pb.ClusterCapacityRequest, context: Any
    ) -> pb.ClusterCapacityResponse:
        """Return the sums over all agents; the quota of the role replaces the total where there is one."""
        if not self._cluster.known:
            answer = pb.ClusterCapacityResponse()
            answer.error.clusterUnavailable.message = "the master's map of agents has not been read yet"
            return answer
        capacity = self._manager.hosts.agents.capacity
        physical = dict(zip(KINDS, capacity.total.values(), strict=True))
        physical.update(self._cluster.quota)
        return pb.ClusterCapacityResponse(
            resources=_amounts(zip(KINDS, capacity.allocated.values(), strict=True)),
            physicalResources=_amounts(physical.items()),
            allocatedSlackResources=_amounts(_slack(capacity.allocated_slack_cpu)),
            physicalSlackResources=_amounts(_slack(capacity.slack_cpu)),
            classes=[
                pb.HostClassCapacity(
                    gpu=of.gpu,
                    exclusive=of.exclusive,
                    hostPool=of.pool,
                    physicalResources=_amounts(zip(KINDS, amounts.values(), strict=True)),
                    physicalSlackResources=_amounts(_slack(slack_cpu)),
                )
                for of, (amounts, slack_cpu) in sorted(
                    within_quota(self._manager.hosts.table.capacity_by_class(), self._cluster.quota).items()
                )
            ],
        )

    async def GetHostPoolCapacity(
        self, request: pb.GetHostPoolCapacityRequest, context: Any
    ) -> pb.GetHostPoolCapacityResponse:
        """Return the sums over the agents of each pool."""
        if self._pools is None:
            raise Unavailable("host pools are not known here")
        answer = pb.GetHostPoolCapacityResponse(not_in_use=not self._pools.hosts.in_use)
        for name, (_, capacity) in self._pools.hosts.capacities().items():
            answer.pools.add(
                poolName=name,
                physicalCapacity=_amounts(zip(KINDS, capacity.total.values(), strict=True)),
                slackCapacity=_amounts(_slack(capacity.slack_cpu)),
            )
        return answer

    async def GetOutstandingOffers(
        self, request: pb.GetOutstandingOffersRequest, context: Any
    ) -> pb.GetOutstandingOffersResponse:
        """Return all offers."""
        offers = offers_to(each.wire for each in list(self._manager.hosts.offers))
        answer = pb.GetOutstandingOffersResponse(offers=offers)
        if not offers:
            answer.error.noOffers.message = "no offers are outstanding"
        return answer

    async def GetHostsByQuery(
        self, request: pb.GetHostsByQueryRequest, context: Any
    ) -> pb.GetHostsByQueryResponse:
        """Return hosts by their free resources."""
        return hosts_by_query(self._manager, request)

    async def GetTasksByHostState(
        self, request: pb.GetTasksByHostStateRequest, context: Any
    ) -> pb.GetTasksByHostStateResponse:
        """Return the runs on hosts of one state, `limit` at most (0: all).

        Where there are none, wait until there are, for `timeout` milliseconds at most. Raises InvalidArgument
        for a state that is none, and for a timeout that is too long.
        """
        runs = await runs_by_host_state(self._manager, request.host_state, request.limit, request.timeout)
        return pb.GetTasksByHostStateResponse(task_ids=map(run_id, runs))

    async def GetMesosMasterHostPort(
        self, request: pb.MesosMasterHostPortRequest, context: Any
    ) -> pb.MesosMasterHostPortResponse:
        """Return the leading master. Raises Unavailable before the first subscription."""
        master = self._manager.core.connection.master
        return pb.MesosMasterHostPortResponse(hostname=master.host, port=str(master.port))

    async def GetMesosAgentInfo(
        self, request: pb.GetMesosAgentInfoRequest, context: Any
    ) -> pb.GetMesosAgentInfoResponse:
        """Return the agents of one host, or all where no hostname is given."""
        found = [
            agent.wire for agent in self._cluster.agents.values() if request.hostname in ("", agent.hostname)
        ]
        answer = pb.GetMesosAgentInfoResponse(agents=agents_to(found))
        if request.hostname and not found:
            answer.error.hostNotFound.message = f"no agent is registered for host {request.hostname}"
        return answer


def filter_from(wire: pb.HostFilter, path: str = "filter") -> HostFilter:
    """Translate a filter. Raises InvalidArgument for an incomplete constraint and for invalid amounts."""
    need = wire.resourceConstraint
    minimum = resources_from(need.minimum, f"{path}.resourceConstraint.minimum")
    constraint = None
    if wire.HasField("schedulingConstraint"):
        constraint = constraint_from(wire.schedulingConstraint, f"{path}.schedulingConstraint", levels=None)
    return HostFilter(
        minimum=minimum,
        ports=need.numPorts,
        revocable=need.revocable,
        constraint=constraint,
        max_hosts=wire.quantity.maxHosts,
        preferred=tuple(host.hostname for host in wire.hint.hostHint),
        held_for=frozenset(host.taskID.value for host in wire.hint.hostHint if host.taskID.value),
        ranking=_RANKINGS.get(wire.hint.rankHint),
    )


def _is_complete(entry: pb.KillAndReserveTasksRequest.Entry) -> bool:
    """Return whether an entry names a run, its instance and a host."""
    run = entry.taskId.value
    if not isinstance(run, str):  # bytes: a text of Mesos' messages (proto2) that is not UTF-8
        return False
    return bool(entry.hostToReserve) and entry.id.value == run.rpartition("-")[0] != ""


def _slack(cpu: int) -> Iterable[tuple[str, int]]:
    return zip(KINDS, Resources(cpu=cpu).values(), strict=True)


def _amounts(amounts: Iterable[tuple[str, int]]) -> list[pb.Resource]:
    return [pb.Resource(kind=kind, capacity=value / MILLI) for kind, value in amounts]

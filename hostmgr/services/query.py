"""Queries of operators about hosts: GetHostsByQuery, and v0 HostService.QueryHosts."""

from __future__ import annotations

from typing import Any

from hostmgr.core.hosts import Hosts
from hostmgr.core.states import GOAL
from hostmgr.drivers.agents import Cluster
from hostmgr.drivers.manager import HostManager
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2, host_svc_pb2_grpc
from peloton.model.resources import Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.wire.constraint import labels_to
from peloton.wire.hosts import resources_to
from peloton.wire.ids import run_id
from peloton.wire.task import resources_from


def hosts_by_query(manager: HostManager, request: pb.GetHostsByQueryRequest) -> pb.GetHostsByQueryResponse:
    """Return hosts by what is free of them.

    Of the kinds with an amount above 0, each must be at least, or with cmpLess less than, the amount given.
    """
    table, wanted = manager.hosts.table, set(request.hostnames)
    asked = resources_from(request.resource)
    answer = pb.GetHostsByQueryResponse()
    for row in sorted(table.rows(), key=lambda row: table.hostnames[row]):
        if wanted and table.hostnames[row] not in wanted:
            continue
        free = table.free(row)
        slack_cpu = free.slack_cpu if request.includeRevocable else 0
        if _within(free.normal + Resources(cpu=slack_cpu), asked, request.cmpLess):
            answer.hosts.add(
                hostname=table.hostnames[row],
                resources=resources_to(free.normal, slack_cpu),
                status=table.claim(row).name.lower(),
                tasks=[run_id(run) for run in manager.runs.on(table.agent_ids[row])],
            )
    return answer


def _within(free: Resources, asked: Resources, less: bool) -> bool:
    pairs = [(have, want) for have, want in zip(free.values(), asked.values(), strict=True) if want > 0]
    return all(have < want if less else have >= want for have, want in pairs)


class HostQueries(host_svc_pb2_grpc.HostServiceServicer):
    """QueryHosts; the other methods of v0 HostService are UNIMPLEMENTED."""

    def __init__(self, cluster: Cluster, hosts: Hosts) -> None:
        self._cluster = cluster
        self._hosts = hosts

    async def QueryHosts(
        self, request: host_svc_pb2.QueryHostsRequest, context: Any
    ) -> host_svc_pb2.QueryHostsResponse:
        """List registered agents by the state of their hosts; without states, all."""
        answer = host_svc_pb2.QueryHostsResponse()
        wanted = set(map(int, request.host_states))
        for agent in sorted(self._cluster.agents.values(), key=lambda each: each.hostname):
            state = self._hosts.life(agent.id)
            if not wanted or state in wanted:
                answer.host_infos.add(
                    hostname=agent.hostname,
                    ip=agent.ip,
                    state=host_pb2.HostState.ValueType(state),
                    goal_state=host_pb2.HostState.ValueType(GOAL[state]),
                    labels=labels_to(agent.labels),
                )
        return answer

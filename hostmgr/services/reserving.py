"""ReserveHosts and GetCompletedReservations of InternalHostService: a host for one task."""

from __future__ import annotations

from collections.abc import Mapping

from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.drivers.claim_ids import claim_ids
from hostmgr.drivers.manager import HostManager
from hostmgr.services.offers import host_info, host_offer
from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.wire.constraint import constraint_from
from peloton.wire.task import resources_from


def reserve_hosts(
    manager: HostManager, agents: Mapping[str, Agent], wanted: hostsvc_pb2.Reservation
) -> hostsvc_pb2.ReserveHostsResponse:
    """Reserve one of the hosts named for a task. Hosts without an agent id are looked up by their names."""
    answer = hostsvc_pb2.ReserveHostsResponse()
    run = wanted.task.taskId.value
    agent_ids = [
        agent_id
        for host in wanted.hosts
        for agent_id in ([host.agentId.value] if host.agentId.value else _agents_of(manager, host.hostname))
    ]
    try:
        want = _filter_of(wanted.task)
        if not run or not wanted.hosts:
            raise InvalidArgument("reservation", "", "a task with a taskId, and hosts, at least one")
        best = manager.core.reservations.reserve_one(
            run, want, agent_ids, manager.clock.monotonic(), wanted.task
        )
    except AlreadyExists as error:
        answer.error.alreadyExist.message = str(error)
    except NotFound as error:
        answer.error.hostUnavailable.message = str(error)
    except Refused as error:
        answer.error.hostAlreadyReserved.message = str(error)
    except InvalidArgument as error:
        answer.error.failed.message = str(error)
    else:
        answer.host.CopyFrom(host_info(manager, agents, best))
    return answer


def completed_reservations(
    manager: HostManager, agents: Mapping[str, Agent]
) -> hostsvc_pb2.GetCompletedReservationResponse:
    """Claim the reserved hosts whose offers suffice now, and end their reservations."""
    answer = hostsvc_pb2.GetCompletedReservationResponse()
    now = manager.clock.monotonic()
    manager.core.reservations.expire(now)
    manager.core.reservations.replan(now)
    for it, claim in manager.core.reservations.completed(claim_ids(), now):
        assert isinstance(it.payload, resmgr_pb2.Task)
        answer.completedReservations.add(
            host=host_info(manager, agents, claim.agent_id),
            task=it.payload,
            hostOffer=host_offer(manager, claim, it.payload.revocable),
        )
    if not answer.completedReservations:
        answer.error.notFound.message = "no reserved host has enough free now"
    return answer


def _agents_of(manager: HostManager, hostname: str) -> list[str]:
    table = manager.hosts.table
    return [table.agent_ids[row] for row in table.rows_of(hostname)]


def _filter_of(task: resmgr_pb2.Task) -> HostFilter:
    """Return what a task requires of its host. Raises InvalidArgument."""
    path = "reservation.task"
    constraint = None
    if task.HasField("constraint"):
        constraint = constraint_from(task.constraint, f"{path}.constraint")
    return HostFilter(
        minimum=resources_from(task.resource, f"{path}.resource"),
        ports=task.numPorts,
        revocable=task.revocable,
        constraint=constraint,
    )

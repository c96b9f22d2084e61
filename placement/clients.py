"""The engine's ports over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.daemon.tracing import TRACES
from peloton.errors import RemoteFailure
from peloton.model.shortage import Shortage
from peloton.model.states import TaskType
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.reservations import reservations_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.placing import placing_pb2
from peloton.private.resmgr.planning import planning_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.rpc.client import Caller, LeaderClient
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape, TasksOnHosts
from placement.plans import GroupPlan, PlanRequest
from placement.ports import (
    NO_HOSTS,
    Acquired,
    Desired,
    Failure,
    Rejection,
    ReservationAnswer,
    ReservationReport,
)
from placement.traces import TracedRuns
from placement.wire import (
    acquire_request,
    compare_request,
    failure_to,
    find_request,
    gangs_from,
    group_plan_to,
    host_from,
    host_to,
    labels_on_hosts_from,
    placement_to,
    plan_request_from,
    progress_from,
    rejections_from,
    reserved_to,
    shortages_from,
    wish_to,
)

CALL_SECONDS = 10.0
"""Longest time of one call."""
SHAPES_PER_CALL = 1000


class ResmgrQueue:
    """The queue of gangs at the leading resmgr."""

    def __init__(self, client: LeaderClient, placing: LeaderClient, type_: TaskType) -> None:
        """Use `placing` for the PlacingService of the same daemon."""
        self._client = client
        self._placing = placing
        self._type = type_
        self._traced = TracedRuns({"peloton.task_type": type_.name})

    async def dequeue(self, limit: int, wait: float) -> Sequence[Gang]:
        """Lease up to `limit` gangs; wait up to `wait` seconds for the first."""
        request = resmgrsvc_pb2.DequeueGangsRequest(
            limit=limit, timeout=round(wait * 1000), type=resmgr_pb2.TaskType.ValueType(self._type)
        )
        answer: resmgrsvc_pb2.DequeueGangsResponse = await self._client.call(
            "DequeueGangs", request, timeout=wait + CALL_SECONDS, retry=False
        )
        if answer.error.HasField("failure"):
            raise RemoteFailure(f"resmgr DequeueGangs: {answer.error.failure.message}")
        gangs = gangs_from(answer.gangs)
        if TRACES.on:
            self._traced.taken(gangs)
        return gangs

    async def report(
        self, placements: Sequence[HostPlacement], failures: Sequence[Failure]
    ) -> Sequence[Rejection]:
        """Report placements and failures; return the runs whose placement is rejected."""
        decided = TRACES.now()
        if failures:
            given_back = placing_pb2.GiveBackRequest(gangs=map(failure_to, failures))
            await self._placing.call("GiveBack", given_back, timeout=CALL_SECONDS)
            if decided:
                self._traced.reported((), failures, (), decided)
        if failures and not placements:
            return ()
        request = resmgrsvc_pb2.SetPlacementsRequest(
            placements=[placement_to(placement, self._type) for placement in placements]
        )
        answer: resmgrsvc_pb2.SetPlacementsResponse = await self._client.call(
            "SetPlacements", request, timeout=CALL_SECONDS
        )
        rejections = rejections_from(answer.error.failure)
        if decided:
            self._traced.reported(placements, (), rejections, decided)
        return rejections

    async def tasks_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        """Return the labels of the tasks that are placed or running on hosts."""
        request = placing_pb2.GetLabelsOnHostsRequest(hostnames=hostnames)
        return labels_on_hosts_from(
            await self._placing.call("GetLabelsOnHosts", request, timeout=CALL_SECONDS)
        )

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        """Report gangs that wait for reserved hosts; return those that are gone."""
        request = placing_pb2.ReportReservationsRequest(gangs=map(reserved_to, reports))
        answer = await self._placing.call("ReportReservations", request, timeout=CALL_SECONDS)
        return [reports[position].gang for position in answer.gone]


class ResmgrPlans:
    """Plans at the leading resmgr."""

    def __init__(self, client: LeaderClient, type_: TaskType) -> None:
        """Use `client` for the PlanningService."""
        self._client = client
        self._type = type_

    async def take(self, wait: float) -> PlanRequest | None:
        """Return the next request; None where there is none within `wait` seconds."""
        request = planning_pb2.TakePlanRequest(
            type=resmgr_pb2.TaskType.ValueType(self._type), timeout_ms=round(wait * 1000)
        )
        answer: planning_pb2.TakePlanResponse = await self._client.call(
            "TakePlan", request, timeout=wait + CALL_SECONDS, retry=False
        )
        return plan_request_from(answer) if answer.plan_id else None

    async def answer(self, plan_id: str, groups: Sequence[GroupPlan]) -> None:
        """Answer a request."""
        request = planning_pb2.AnswerPlanRequest(plan_id=plan_id, groups=map(group_plan_to, groups))
        await self._client.call("AnswerPlan", request, timeout=CALL_SECONDS)


class HostmgrClaims:
    """Claims on hosts at the leading hostmgrs."""

    def __init__(self, client: Caller, feasibility: Caller) -> None:
        """Use `feasibility` for the FeasibilityService of the same daemon."""
        self._client = client
        self._feasibility = feasibility

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        """Claim up to `most` hosts that have room for one such task; of those with `names`, if given."""
        answer: hostsvc_pb2.AcquireHostOffersResponse = await self._client.call(
            "AcquireHostOffers", acquire_request(needs, most, names), timeout=CALL_SECONDS
        )
        error = answer.error
        if error.HasField("invalidHostFilter") or error.HasField("failure"):
            message = error.invalidHostFilter.message or error.failure.message
            raise RemoteFailure(f"hostmgr AcquireHostOffers: {message}")
        hosts = [host_from(offer, needs.host_class) for offer in answer.hostOffers]
        return Acquired(hosts, dict(answer.filterResultCounts))

    async def release(self, hosts: Sequence[Host]) -> None:
        """Release claimed hosts."""
        request = hostsvc_pb2.ReleaseHostOffersRequest(hostOffers=map(host_to, hosts))
        await self._client.call("ReleaseHostOffers", request, timeout=CALL_SECONDS)

    async def find(self, needs: Needs, most: int, offset: int) -> Acquired:
        """Return up to `most` hosts that could be claimed, from `offset` on, without claiming them."""
        answer = await self._feasibility.call(
            "FindHosts", find_request(needs, most, offset), timeout=CALL_SECONDS
        )
        return Acquired([host_from(each, needs.host_class) for each in answer.hosts], dict(answer.counts))

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return for each shape why such a gang would not fit on empty hosts, as far as known."""
        found: list[Shortage | None] = []
        for at in range(0, len(shapes), SHAPES_PER_CALL):
            request = compare_request(shapes[at : at + SHAPES_PER_CALL])
            answer = await self._feasibility.call("CheckGangs", request, timeout=CALL_SECONDS)
            found += shortages_from(answer)
        return found


class HostmgrReservations:
    """Reservations of hosts at the leading hostmgrs."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def reserve(self, gangs: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        """Make or renew reservations, each under an id; return how far each is."""
        request = reservations_pb2.ReserveForGangsRequest(wishes=(wish_to(*each) for each in gangs))
        answer = await self._client.call("ReserveForGangs", request, timeout=CALL_SECONDS)
        return [progress_from(wire, shape) for wire, (_, shape) in zip(answer.progress, gangs, strict=True)]

    async def cancel(self, ids: Sequence[str]) -> None:
        """End reservations."""
        request = reservations_pb2.CancelReservationsRequest(ids=ids)
        await self._client.call("CancelReservations", request, timeout=CALL_SECONDS)

    async def backfill(self, run_id: str, needs: Needs, most: int) -> tuple[Sequence[Host], bool]:
        """Claim up to `most` hosts for tasks of a run's job, also reserved ones where those end in time."""
        request = reservations_pb2.AcquireForBackfillRequest(filter=acquire_request(needs, most).filter)
        request.run.value = run_id
        answer = await self._client.call("AcquireForBackfill", request, timeout=CALL_SECONDS)
        return [host_from(offer, needs.host_class) for offer in answer.claims], answer.open

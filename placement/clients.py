"""The ports of a placement engine over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.calls.placement import (
    ACQUIRE_FOR_BACKFILL,
    ACQUIRE_HOST_OFFERS,
    ANSWER_PLAN,
    CANCEL_RESERVATIONS,
    CHECK_GANGS,
    DEQUEUE_GANGS,
    FIND_HOSTS,
    GET_LABELS_ON_HOSTS,
    GIVE_BACK,
    RELEASE_HOST_OFFERS,
    REPORT_RESERVATIONS,
    RESERVE_FOR_GANGS,
    SET_PLACEMENTS,
    TAKE_PLAN,
)
from peloton.calls.rpc import Caller
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
from placement.core.events import HostsClaimed, Rejection, ReservationAnswer, ReservedClaimed
from placement.core.found_hosts import Find, HostsFound
from placement.core.instructions import Claim, ClaimReserved, ReservationReport
from placement.core.model import Gang, Host, HostPlacement, Shape, TasksOnHosts, Unplaced
from placement.core.plans import GroupPlan, PlanRequest
from placement.traces import TracedRuns
from placement.wire import (
    acquire_request,
    backfill_request,
    compare_request,
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
    unplaced_to,
    wish_to,
)

CALL_SECONDS = 10.0
"""Longest time of one call."""
SHAPES_PER_CALL = 1000


class ResmgrClient:
    """The queue of gangs of one task type, and the plans for it, at the leading resmgr."""

    def __init__(self, client: Caller, type_: TaskType, pooled: bool = True) -> None:
        """With `pooled`, tasks keep to host pools."""
        self._pooled = pooled
        self._client = client
        self._type = type_
        self._traced = TracedRuns({"peloton.task_type": type_.name})
        self._call = self._received = 0
        """Numbers of the last call for gangs, and of the last one that has brought some."""

    async def take(self, limit: int, wait: float) -> Sequence[Gang]:
        """Lease up to `limit` gangs; wait up to `wait` seconds for the first.

        What a call got whose answer has not arrived returns with the next one.
        """
        self._call += 1
        request = resmgrsvc_pb2.DequeueGangsRequest(
            limit=limit,
            timeout=round(wait * 1000),
            type=resmgr_pb2.TaskType.ValueType(self._type),
            ignore_host_pools=not self._pooled,
            call=self._call,
            received=self._received,
        )
        answer: resmgrsvc_pb2.DequeueGangsResponse = await self._client.call(
            DEQUEUE_GANGS, request, timeout=CALL_SECONDS, retry=False, waits=wait
        )
        if answer.error.HasField("failure"):
            raise RemoteFailure(f"resmgr DequeueGangs: {answer.error.failure.message}")
        gangs = gangs_from(answer.gangs)
        if gangs:
            self._received = request.call
        if TRACES.on:
            self._traced.taken(gangs)
        return gangs

    async def report(self, placements: Sequence[HostPlacement]) -> Sequence[Rejection]:
        """Report placements; return the runs whose placement is rejected."""
        decided = TRACES.now()
        rejections = await self._set_placements(placements)
        if decided:
            self._traced.reported(placements, (), rejections, decided)
        return rejections

    async def show_life(self) -> None:
        """Show that the engine works: report nothing."""
        await self._set_placements(())

    async def _set_placements(self, placements: Sequence[HostPlacement]) -> Sequence[Rejection]:
        request = resmgrsvc_pb2.SetPlacementsRequest(
            placements=[placement_to(placement, self._type) for placement in placements]
        )
        answer: resmgrsvc_pb2.SetPlacementsResponse = await self._client.call(
            SET_PLACEMENTS, request, timeout=CALL_SECONDS
        )
        return rejections_from(answer.error.failure)

    async def give_back(self, unplaced: Sequence[Unplaced]) -> None:
        """Give gangs back."""
        decided = TRACES.now()
        request = placing_pb2.GiveBackRequest(gangs=map(unplaced_to, unplaced))
        await self._client.call(GIVE_BACK, request, timeout=CALL_SECONDS)
        if decided:
            self._traced.reported((), unplaced, (), decided)

    async def labels_on(self, hostnames: Sequence[str]) -> TasksOnHosts:
        """Return the labels of the tasks that are placed or running on hosts."""
        request = placing_pb2.GetLabelsOnHostsRequest(hostnames=hostnames)
        return labels_on_hosts_from(
            await self._client.call(GET_LABELS_ON_HOSTS, request, timeout=CALL_SECONDS)
        )

    async def report_reservations(self, reports: Sequence[ReservationReport]) -> Sequence[Gang]:
        """Report gangs that wait for reserved hosts; return those that are gone."""
        request = placing_pb2.ReportReservationsRequest(gangs=map(reserved_to, reports))
        answer = await self._client.call(REPORT_RESERVATIONS, request, timeout=CALL_SECONDS)
        return [reports[position].gang for position in answer.gone]

    async def take_plan(self, wait: float) -> PlanRequest | None:
        """Return the next request for a plan; None where there is none within `wait` seconds."""
        request = planning_pb2.TakePlanRequest(
            type=resmgr_pb2.TaskType.ValueType(self._type), timeout_ms=round(wait * 1000)
        )
        answer: planning_pb2.TakePlanResponse = await self._client.call(
            TAKE_PLAN, request, timeout=CALL_SECONDS, retry=False, waits=wait
        )
        return plan_request_from(answer) if answer.plan_id else None

    async def answer_plan(self, plan_id: str, groups: Sequence[GroupPlan]) -> None:
        """Answer a request for a plan."""
        request = planning_pb2.AnswerPlanRequest(plan_id=plan_id, groups=map(group_plan_to, groups))
        await self._client.call(ANSWER_PLAN, request, timeout=CALL_SECONDS)


class HostmgrClient:
    """Hosts, claims on them and reservations, at the leading hostmgrs of all clusters."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def claim(self, claim: Claim) -> HostsClaimed:
        """Claim hosts."""
        answer: hostsvc_pb2.AcquireHostOffersResponse = await self._client.call(
            ACQUIRE_HOST_OFFERS, acquire_request(claim), timeout=CALL_SECONDS
        )
        error = answer.error
        if error.HasField("invalidHostFilter") or error.HasField("failure"):
            message = error.invalidHostFilter.message or error.failure.message
            raise RemoteFailure(f"hostmgr AcquireHostOffers: {message}")
        hosts = [host_from(offer, claim.needs.host_class) for offer in answer.hostOffers]
        return HostsClaimed(hosts, dict(answer.filterResultCounts), tuple(answer.held))

    async def claim_reserved(self, claim: ClaimReserved) -> ReservedClaimed:
        """Claim hosts, also reserved ones where tasks of the run's job end in time."""
        answer = await self._client.call(ACQUIRE_FOR_BACKFILL, backfill_request(claim), timeout=CALL_SECONDS)
        hosts = [host_from(offer, claim.needs.host_class) for offer in answer.claims]
        return ReservedClaimed(hosts, answer.open)

    async def release(self, hosts: Sequence[Host]) -> None:
        """Release claimed hosts."""
        request = hostsvc_pb2.ReleaseHostOffersRequest(hostOffers=map(host_to, hosts))
        await self._client.call(RELEASE_HOST_OFFERS, request, timeout=CALL_SECONDS)

    async def find(self, find: Find) -> HostsFound:
        """Return hosts that could be claimed, without claiming them."""
        answer = await self._client.call(FIND_HOSTS, find_request(find), timeout=CALL_SECONDS)
        return HostsFound(
            [host_from(each, find.needs.host_class) for each in answer.hosts], dict(answer.counts)
        )

    async def compare(self, shapes: Sequence[Shape]) -> Sequence[Shortage | None]:
        """Return for each shape why such a gang would not fit on empty hosts, as far as known."""
        found: list[Shortage | None] = []
        for at in range(0, len(shapes), SHAPES_PER_CALL):
            request = compare_request(shapes[at : at + SHAPES_PER_CALL])
            answer = await self._client.call(CHECK_GANGS, request, timeout=CALL_SECONDS)
            found += shortages_from(answer)
        return found

    async def reserve(self, wishes: Sequence[tuple[str, Shape]]) -> Sequence[ReservationAnswer]:
        """Make or renew reservations, each under an id; return how far each is."""
        request = reservations_pb2.ReserveForGangsRequest(wishes=(wish_to(*each) for each in wishes))
        answer = await self._client.call(RESERVE_FOR_GANGS, request, timeout=CALL_SECONDS)
        return [progress_from(wire, shape) for wire, (_, shape) in zip(answer.progress, wishes, strict=True)]

    async def cancel_reservations(self, ids: Sequence[str]) -> None:
        """End reservations."""
        request = reservations_pb2.CancelReservationsRequest(ids=ids)
        await self._client.call(CANCEL_RESERVATIONS, request, timeout=CALL_SECONDS)

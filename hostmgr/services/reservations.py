"""ReservationService: hosts for gangs that found no place, and their use by others until the gangs start."""

from __future__ import annotations

from typing import Any

from hostmgr.core.claims.claim import Claim
from hostmgr.core.reservations.queue import Progress
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.reservations import ReservationPlanner
from hostmgr.services.feasibility import shape_from
from hostmgr.services.internal import filter_from
from hostmgr.services.offers import host_offer
from peloton.errors import InvalidArgument
from peloton.model.plural import plural
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.reservations import reservations_pb2 as pb
from peloton.private.hostmgr.reservations import reservations_pb2_grpc
from peloton.rpc.server import caller

MAX_WISHES = 1000
SHOWN_HOSTS = 10


class ReservationService(reservations_pb2_grpc.ReservationServiceServicer):
    """Reserve hosts for gangs, and let others use them until the gangs start."""

    def __init__(self, manager: HostManager, planner: ReservationPlanner) -> None:
        self._manager = manager
        self._planner = planner

    async def ReserveForGangs(
        self, request: pb.ReserveForGangsRequest, context: Any
    ) -> pb.ReserveForGangsResponse:
        """Make or renew reservations; return how far each is. Raises InvalidArgument."""
        if len(request.wishes) > MAX_WISHES:
            raise InvalidArgument(
                "wishes", plural(len(request.wishes), "gang"), f"at most {MAX_WISHES} gangs"
            )
        wishes = []
        for i, wish in enumerate(request.wishes):
            if not wish.id:
                raise InvalidArgument(f"wishes[{i}].id", "", "the run of the gang's first task")
            wishes.append((wish.id, shape_from(wish.gang, f"wishes[{i}].gang")))
        found = await self._planner.renew(wishes, caller(context).instance)
        return pb.ReserveForGangsResponse(
            progress=[
                self._progress(progress, any(each.want.revocable for each in shape.members))
                for progress, (_, shape) in zip(found, wishes, strict=True)
            ]
        )

    def _progress(self, progress: Progress, revocable: bool) -> pb.Progress:
        now, hosts = self._manager.clock.monotonic(), self._manager.hosts
        later = [part.free_from for part in progress.parts if part.free_from is None or part.free_from > now]
        known = [each for each in later if each is not None]
        names = (hosts.hostname(part.agent_id) for part in progress.parts[:SHOWN_HOSTS])
        return pb.Progress(
            claims=self._offers(progress.claims, revocable),
            members=progress.groups,
            reserved=len(progress.parts),
            free=len(progress.parts) - len(later),
            hostnames=names,
            start_seconds=None if progress.start is None else max(0.0, progress.start - now),
            next_seconds=min(known) - now if known else None,
            ahead=progress.ahead,
        )

    def _offers(self, claims: tuple[Claim, ...], revocable: bool) -> list[hostsvc_pb2.HostOffer]:
        return [host_offer(self._manager, claim, revocable) for claim in claims]

    async def CancelReservations(
        self, request: pb.CancelReservationsRequest, context: Any
    ) -> pb.CancelReservationsResponse:
        """End reservations at once. One that is not known is no error."""
        self._manager.core.reservations.cancel(request.ids)
        return pb.CancelReservationsResponse()

    async def AcquireForBackfill(
        self, request: pb.AcquireForBackfillRequest, context: Any
    ) -> pb.AcquireForBackfillResponse:
        """Claim hosts for tasks that end in time. Raises InvalidArgument, Unavailable."""
        want = filter_from(request.filter)
        owner = caller(context).instance
        acquired, is_open = await self._planner.backfill(request.run.value, want, owner)
        claims = self._offers(acquired.claims, want.revocable)
        return pb.AcquireForBackfillResponse(claims=claims, open=is_open)

"""FeasibilityService for clients of jobmgr, answered by hostmgr."""

from __future__ import annotations

from peloton.calls.jobmgr import CHECK_GANGS
from peloton.calls.rpc import Caller
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.private.hostmgr.feasibility import feasibility_pb2_grpc

SECONDS = 5.0


class FeasibilityService(feasibility_pb2_grpc.FeasibilityServiceServicer):
    """Forwards calls to hostmgr."""

    def __init__(self, hostmgr: Caller) -> None:
        """Forward to `hostmgr`."""
        self._hostmgr = hostmgr

    async def CheckGangs(self, request: pb.CheckGangsRequest, context: object) -> pb.CheckGangsResponse:
        """Return which gangs fit on empty hosts."""
        answer: pb.CheckGangsResponse = await self._hostmgr.call(CHECK_GANGS, request, timeout=SECONDS)
        return answer

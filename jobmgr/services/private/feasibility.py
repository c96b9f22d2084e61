"""FeasibilityService for clients of jobmgr, answered by hostmgr."""

from __future__ import annotations

from typing import Any

from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.private.hostmgr.feasibility import feasibility_pb2_grpc
from peloton.rpc.client import Caller

SECONDS = 5.0


class FeasibilityService(feasibility_pb2_grpc.FeasibilityServiceServicer):
    """Forwards calls to hostmgr."""

    def __init__(self, hostmgr: Caller) -> None:
        """Forward to `hostmgr`, its service of the same name."""
        self._hostmgr = hostmgr

    async def CheckGangs(self, request: pb.CheckGangsRequest, context: Any) -> pb.CheckGangsResponse:
        """Return which gangs fit on empty hosts."""
        answer: pb.CheckGangsResponse = await self._hostmgr.call("CheckGangs", request, timeout=SECONDS)
        return answer

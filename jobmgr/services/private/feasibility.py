"""FeasibilityService for clients of jobmgr: hostmgr's answers, passed on."""

from __future__ import annotations

from typing import Any

from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.private.hostmgr.feasibility import feasibility_pb2_grpc
from peloton.rpc.client import Caller

SECONDS = 5.0


class FeasibilityService(feasibility_pb2_grpc.FeasibilityServiceServicer):
    def __init__(self, hostmgr: Caller) -> None:
        """`hostmgr` is its service of the same name."""
        self._hostmgr = hostmgr

    async def CheckGangs(self, request: pb.CheckGangsRequest, context: Any) -> pb.CheckGangsResponse:
        answer: pb.CheckGangsResponse = await self._hostmgr.call("CheckGangs", request, timeout=SECONDS)
        return answer

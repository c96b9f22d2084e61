"""ClaimService: a new leader of resmgr shortens the claims for placements that it does not know."""

from __future__ import annotations

import math
from typing import Any

from hostmgr.drivers.manager import HostManager
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.claims import claims_pb2 as pb
from peloton.private.hostmgr.claims import claims_pb2_grpc


class ClaimService(claims_pb2_grpc.ClaimServiceServicer):
    """Change claims that their owners cannot give back."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager

    async def ShortenClaims(self, request: pb.ShortenClaimsRequest, context: Any) -> pb.ShortenClaimsResponse:
        """Shorten claims of a certain age. Raises InvalidArgument for an age that is none."""
        if not 0 <= request.older_than < math.inf:
            raise InvalidArgument("older_than", request.older_than, "a number of seconds, 0 or more")
        return pb.ShortenClaimsResponse(shortened=self._manager.shorten_claims(request.older_than))

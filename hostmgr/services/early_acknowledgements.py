"""PassingService: jobmgr acknowledges events before earlier ones."""

from __future__ import annotations

from typing import Any

from hostmgr.drivers.status_updates import StatusUpdates
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.passing import passing_pb2 as pb
from peloton.private.hostmgr.passing import passing_pb2_grpc

MOST_EVENTS = 100_000


class EarlyAcknowledgements(passing_pb2_grpc.PassingServiceServicer):
    """Acknowledge events out of order."""

    def __init__(self, statuses: StatusUpdates) -> None:
        self._statuses = statuses

    async def PassEvents(self, request: pb.PassEventsRequest, context: Any) -> pb.PassEventsResponse:
        """Pass events. Raises InvalidArgument for too many, and StreamChanged."""
        if len(request.offsets) > MOST_EVENTS:
            raise InvalidArgument("offsets", f"{len(request.offsets)} offsets", f"at most {MOST_EVENTS}")
        self._statuses.pass_early(request.stream_id, request.offsets)
        return pb.PassEventsResponse()

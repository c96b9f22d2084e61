"""EventStreamService v0: statuses for jobmgr and resmgr to pull."""

from __future__ import annotations

from typing import Any

from hostmgr.drivers.status_updates import StatusUpdates
from peloton.eventstream import InvalidPurge, OutOfRange, StreamChanged, UnknownClient
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.private.eventstream import eventstream_pb2_grpc
from peloton.rpc.claimed import shards
from peloton.rpc.server import serialized

MAX_EVENTS = 10_000
MAX_WAIT_MS = 60_000


class EventStream(eventstream_pb2_grpc.EventStreamServiceServicer):
    """Serve the event stream. A job manager gets the events of shards that it names (`peloton-shards`)."""

    def __init__(self, updates: StatusUpdates) -> None:
        self._updates = updates

    async def InitStream(self, request: pb.InitStreamRequest, context: Any) -> pb.InitStreamResponse:
        """Return the current stream and the offset at which the client begins."""
        ring = self._updates.ring
        try:
            first, purged = ring.start(request.clientName, shards(context))
        except UnknownClient as error:
            answer = pb.InitStreamResponse()
            answer.error.clientUnsupported.message = str(error)
            return answer
        return pb.InitStreamResponse(streamID=ring.stream_id, minOffset=first, previousPurgeOffset=purged)

    async def WaitForEvents(self, request: pb.WaitForEventsRequest, context: Any) -> pb.WaitForEventsResponse:
        """Return events, encoded; a limit of 0 or above MAX_EVENTS is MAX_EVENTS."""
        limit = min(request.limit, MAX_EVENTS) if request.limit > 0 else MAX_EVENTS
        timeout = min(max(request.timeoutMs, 0), MAX_WAIT_MS) / 1000
        mine, further = shards(context), b""
        place = request.clientName, request.streamID, request.beginOffset, request.purgeOffset
        try:
            if mine is None:
                events = await self._updates.wait(*place, limit, timeout)
            else:
                events, end = await self._updates.wait_for_shards(*place, limit, timeout, mine)
                further = pb.WaitForEventsResponse(nextOffset=end).SerializeToString()
        except (UnknownClient, StreamChanged, OutOfRange, InvalidPurge) as error:
            return _refused(error, request.streamID)
        encoded = [each.event.encoded for each in events]
        return serialized(pb.WaitForEventsResponse, b"".join([*encoded, further]))


def _refused(
    error: UnknownClient | StreamChanged | OutOfRange | InvalidPurge, stream_id: str
) -> pb.WaitForEventsResponse:
    answer = pb.WaitForEventsResponse()
    if isinstance(error, StreamChanged):
        answer.error.invalidStreamID.currentStreamID = error.current
    elif isinstance(error, OutOfRange):
        out_of_range = answer.error.outOfRange
        out_of_range.streamID, out_of_range.offsetRequested = stream_id, error.requested
        out_of_range.minOffset, out_of_range.maxOffset = error.first, max(error.end - 1, error.first)
    elif isinstance(error, InvalidPurge):
        invalid_purge = answer.error.invalidPurgeOffset
        invalid_purge.purgeOffset, invalid_purge.beginOffset = error.purge, error.begin
    else:
        answer.error.clientUnsupported.message = str(error)
    return answer

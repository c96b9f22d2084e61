"""EventStreamService v0: statuses for jobmgr and resmgr to pull."""

from __future__ import annotations

from typing import Any

from hostmgr.drivers.status_updates import StatusUpdates
from peloton.eventstream import InvalidPurge, OutOfRange, StreamChanged, UnknownClient
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.private.eventstream import eventstream_pb2_grpc

MOST_EVENTS = 10_000
MOST_WAIT_MS = 60_000


class EventStream(eventstream_pb2_grpc.EventStreamServiceServicer):
    def __init__(self, updates: StatusUpdates) -> None:
        self._updates = updates

    async def InitStream(self, request: pb.InitStreamRequest, context: Any) -> pb.InitStreamResponse:
        ring = self._updates.ring
        try:
            first, purged = ring.start(request.clientName)
        except UnknownClient as error:
            answer = pb.InitStreamResponse()
            answer.error.clientUnsupported.message = str(error)
            return answer
        return pb.InitStreamResponse(streamID=ring.stream_id, minOffset=first, previousPurgeOffset=purged)

    async def WaitForEvents(self, request: pb.WaitForEventsRequest, context: Any) -> pb.WaitForEventsResponse:
        """A limit of 0 or over MOST_EVENTS stands for MOST_EVENTS."""
        limit = min(request.limit, MOST_EVENTS) if request.limit > 0 else MOST_EVENTS
        timeout = min(max(request.timeoutMs, 0), MOST_WAIT_MS) / 1000
        try:
            events = await self._updates.wait(
                request.clientName, request.streamID, request.beginOffset, request.purgeOffset, limit, timeout
            )
        except (UnknownClient, StreamChanged, OutOfRange, InvalidPurge) as error:
            return _refused(error, request.streamID)
        return pb.WaitForEventsResponse(events=[each.event.message for each in events])


def _refused(
    error: UnknownClient | StreamChanged | OutOfRange | InvalidPurge, stream_id: str
) -> pb.WaitForEventsResponse:
    answer = pb.WaitForEventsResponse()
    if isinstance(error, StreamChanged):
        answer.error.invalidStreamID.currentStreamID = error.current
    elif isinstance(error, OutOfRange):
        told = answer.error.outOfRange
        told.streamID, told.offsetRequested = stream_id, error.requested
        told.minOffset, told.maxOffset = error.first, max(error.end - 1, error.first)
    elif isinstance(error, InvalidPurge):
        told_purge = answer.error.invalidPurgeOffset
        told_purge.purgeOffset, told_purge.beginOffset = error.purge, error.begin
    else:
        answer.error.clientUnsupported.message = str(error)
    return answer

"""EventStreamService v1alpha: the statuses of the same ring as pod events. Failures are gRPC statuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.status_updates import Entry
from hostmgr.services.events import MAX_EVENTS
from peloton.errors import InvalidArgument, Refused
from peloton.eventstream import InvalidPurge, Numbered, OutOfRange, StreamChanged, UnknownClient
from peloton.private.eventstream.v1alpha.event import event_pb2
from peloton.private.eventstream.v1alpha.eventstreamsvc import eventstreamsvc_pb2 as pb
from peloton.private.eventstream.v1alpha.eventstreamsvc import eventstreamsvc_pb2_grpc
from peloton.wire.eventstream import decoded
from peloton.wire.v1alpha.event import pod_event_of

WAIT_SECONDS = 10.0
"""How long a call waits for events; its message has no field for it."""
ANSWER_EARLIER = 1.0
"""Seconds before the caller's deadline at which a waiting call answers."""


class PodEventStream(eventstreamsvc_pb2_grpc.EventStreamServiceServicer):
    """Serve the event stream to the same clients as v0, which have one purge offset in both."""

    def __init__(self, manager: HostManager) -> None:
        self._manager = manager

    async def InitStream(self, request: pb.InitStreamRequest, context: Any) -> pb.InitStreamResponse:
        """Return the current stream and the offset at which the client begins. Raises InvalidArgument."""
        ring = self._manager.status_updates.ring
        try:
            first, purged = ring.start(request.client_name)
        except UnknownClient:
            raise _unknown(request.client_name) from None
        return pb.InitStreamResponse(stream_id=ring.stream_id, min_offset=first, previous_purge_offset=purged)

    async def WaitForEvents(self, request: pb.WaitForEventsRequest, context: Any) -> pb.WaitForEventsResponse:
        """Return events, or none after WAIT_SECONDS; a limit of 0 or above MAX_EVENTS is MAX_EVENTS.

        Raises InvalidArgument, and Refused where the client has to start over with InitStream.
        """
        left = context.time_remaining()
        seconds = WAIT_SECONDS if left is None else min(WAIT_SECONDS, max(0.0, left - ANSWER_EARLIER))
        try:
            found = await self._manager.status_updates.wait(
                request.client_name,
                request.stream_id,
                request.begin_offset,
                request.purge_offset,
                min(request.limit, MAX_EVENTS) if request.limit > 0 else MAX_EVENTS,
                seconds,
            )
        except UnknownClient:
            raise _unknown(request.client_name) from None
        except InvalidPurge as error:
            expected = f"at most the begin_offset, {error.begin}"
            raise InvalidArgument("purge_offset", error.purge, expected) from None
        except (StreamChanged, OutOfRange) as error:
            raise Refused(f"{error}: call InitStream and start over") from None
        return pb.WaitForEventsResponse(events=pod_events(self._manager, found))


def pod_events(manager: HostManager, found: Iterable[Numbered[Entry]]) -> Iterable[event_pb2.Event]:
    """Return events of the ring as events of pods, with the hosts that are known."""
    table, stream_id = manager.hosts.table, manager.status_updates.ring.stream_id
    for event in decoded([each.event.encoded for each in found]):
        row = table.row(event.mesosTaskStatus.agent_id.value)
        yield pod_event_of(event, stream_id, "" if row is None else table.hostnames[row])


def _unknown(client: str) -> InvalidArgument:
    return InvalidArgument("client_name", client, "jobmgr or resmgr")

"""The watches of InternalHostService, for operators (docs/behaviour/hosts.md, Watches)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hostmgr.services.watches import EVENTS_TOPIC, HOSTS_TOPIC, EventWatch, HostWatch, Watches
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.private.hostmgr.hostsvc import hostsvc_pb2_grpc
from peloton.rpc.server import serialized


class WatchMethods(hostsvc_pb2_grpc.InternalHostServiceServicer):
    """Serve the watches.

    The first message of each has its id alone. A watch ends with ABORTED where the watcher is too slow,
    CANCELLED after CancelWatchEvent, and UNAVAILABLE where this instance no longer leads.
    """

    def __init__(self, watches: Watches) -> None:
        self._watches = watches

    async def WatchEventStreamEvent(
        self, request: pb.WatchEventRequest, context: Any
    ) -> AsyncIterator[pb.WatchEventStreamEventResponse]:
        """Stream the events that are added to the event stream. Raises InvalidArgument, ResourceExhausted."""
        watch = self._watches.watch_events(request.topic)
        context.add_done_callback(lambda _: self._watches.remove(watch.id))
        head = pb.WatchEventStreamEventResponse(watch_id=watch.id, topic=EVENTS_TOPIC)
        yield head
        encoded_head = head.SerializeToString()
        async for messages in watch.items():
            for message in messages:
                yield serialized(pb.WatchEventStreamEventResponse, encoded_head + message)
        await _end(watch, context)

    async def WatchHostSummaryEvent(
        self, request: pb.WatchEventRequest, context: Any
    ) -> AsyncIterator[pb.WatchHostSummaryEventResponse]:
        """Stream the summaries of hosts that change. Raises InvalidArgument, ResourceExhausted."""
        watch = self._watches.watch_hosts(request.topic)
        context.add_done_callback(lambda _: self._watches.remove(watch.id))
        yield pb.WatchHostSummaryEventResponse(watch_id=watch.id, topic=HOSTS_TOPIC)
        async for hosts in watch.items():
            for message in self._watches.summaries(watch, hosts):
                yield serialized(pb.WatchHostSummaryEventResponse, message)
        await _end(watch, context)

    async def CancelWatchEvent(self, request: pb.CancelWatchRequest, context: Any) -> pb.CancelWatchResponse:
        """End a watch. Raises NotFound, also where it has ended already."""
        self._watches.cancel(request.watch_id)
        return pb.CancelWatchResponse()


async def _end(watch: EventWatch | HostWatch, context: Any) -> None:
    if watch.end is not None:
        await context.abort(watch.end.code, watch.end.text, watch.end.metadata)

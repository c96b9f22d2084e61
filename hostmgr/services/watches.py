"""Watches of operators: new events of the event stream, and hosts that change.

What changes is gathered for a moment, and put once into the bounded queue of each watcher. Without watchers
nothing is gathered.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import TypeVar

import grpc

from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.drivers.status_updates import StatusUpdates
from hostmgr.services.summary import host_summary
from peloton.errors import InvalidArgument, NotFound, ResourceExhausted
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.rpc.watchqueue import MAX_WATCHES, WatchQueue
from peloton.wire.eventstream import decoded

T = TypeVar("T")

GATHER_SECONDS = 0.2
"""Time in which changes are gathered. A watcher may be 100 times as long behind."""
EVENTS_TOPIC, HOSTS_TOPIC = "eventStream", "hostSummary"

EventWatch = WatchQueue[tuple[bytes, ...]]
"""Each item has the messages for the events of one gathering, but for the watch's id and topic."""
HostWatch = WatchQueue[tuple[tuple[str, str], ...]]
"""Each item has the hosts that changed during one gathering: agent ids and hostnames."""


class Watches:
    """All watches of the leader."""

    def __init__(self, updates: StatusUpdates, hosts: Hosts, gather: float = GATHER_SECONDS) -> None:
        """Gather changes for `gather` seconds before they are sent."""
        self._updates = updates
        self._hosts = hosts
        self._gather = gather
        self._events: dict[str, EventWatch] = {}
        self._changes: dict[str, HostWatch] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """The number of watches of both kinds."""
        return len(self._events) + len(self._changes)

    def watch_events(self, topic: str) -> EventWatch:
        """Begin a watch of the event stream. Raises InvalidArgument for its topic, ResourceExhausted."""
        watch: EventWatch = WatchQueue(self._new_id(topic, EVENTS_TOPIC))
        self._events[watch.id] = watch
        if self._updates.watched is None:
            self._updates.watched = []
        return watch

    def watch_hosts(self, topic: str) -> HostWatch:
        """Begin a watch of hosts. Raises InvalidArgument for its topic, ResourceExhausted."""
        watch: HostWatch = WatchQueue(self._new_id(topic, HOSTS_TOPIC))
        self._changes[watch.id] = watch
        self._hosts.changed.watch(True)
        return watch

    def cancel(self, watch_id: str) -> None:
        """End a watch for its watcher. Raises NotFound."""
        watch = self._events.get(watch_id) or self._changes.get(watch_id)
        if watch is None:
            raise NotFound(f"watch_id: there is no watch {watch_id!r}")
        watch.cancel()
        self.remove(watch_id)

    def remove(self, watch_id: str) -> None:
        """Forget a watch, if it is there."""
        self._events.pop(watch_id, None)
        self._changes.pop(watch_id, None)
        if not self._events:
            self._updates.watched = None
        if not self._changes:
            self._hosts.changed.watch(False)
        if not self.count and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """End all watches: this host manager no longer leads."""
        watches: list[EventWatch | HostWatch] = [*self._events.values(), *self._changes.values()]
        for watch in watches:
            watch.finish(grpc.StatusCode.UNAVAILABLE, "this host manager no longer leads: watch the next one")
            self.remove(watch.id)

    def summaries(self, watch: HostWatch, hosts: Iterable[tuple[str, str]]) -> Iterable[bytes]:
        """Iterate over the messages about hosts, as the hosts are now."""
        for agent_id, hostname in hosts:
            yield pb.WatchHostSummaryEventResponse(
                watch_id=watch.id,
                topic=HOSTS_TOPIC,
                hostSummaryEvent=host_summary(self._hosts, agent_id, hostname),
            ).SerializeToString()

    def _new_id(self, topic: str, served: str) -> str:
        if topic.lower() not in ("", served.lower()):
            raise InvalidArgument("topic", topic, f"{served}, or empty")
        if self.count >= MAX_WATCHES:
            raise ResourceExhausted(f"there are {MAX_WATCHES} watches already: cancel some")
        if self._timer is None:
            self._schedule()
        return str(uuid.uuid4())

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._gather, self._flush)

    def _flush(self) -> None:
        """Queue what was gathered, and gather on while there are watches."""
        self._timer = None
        if self._updates.watched:
            events, self._updates.watched = self._updates.watched, []
            messages = tuple(
                pb.WatchEventStreamEventResponse(mesos_task_update=event).SerializeToString()
                for event in decoded(events)
            )
            self._put(self._events, messages)
        if changed := self._hosts.changed.take():
            self._put(self._changes, changed)
        if self.count:
            self._schedule()

    def _put(self, watches: dict[str, WatchQueue[T]], item: T) -> None:
        for watch in list(watches.values()):
            if not watch.put(item):
                self.remove(watch.id)

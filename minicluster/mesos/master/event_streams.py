"""The operators' event streams: SUBSCRIBE of the operator API (recordings ``12-operator*``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mesos.v1.master import master_pb2 as master
from minicluster.mesos.common.http import Connection
from minicluster.mesos.master.core import operator_events
from minicluster.mesos.master.core.state import Master
from minicluster.mesos.master.operator_api import rendered

MAX_SUBSCRIBERS = 1000
"""The oldest stream ends for a new one, as with Mesos' --max_operator_event_stream_subscribers."""


class EventStreams:
    """All event streams of one cluster."""

    def __init__(self, cluster: Master, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._now = now
        self._streams: dict[Connection, str] = {}

    def add(self, connection: Connection, content_type: str) -> None:
        """Start a stream: the present state, a heartbeat, and from then on all events."""
        while len(self._streams) >= MAX_SUBSCRIBERS:
            oldest = next(iter(self._streams))
            self._drop(oldest)
            oldest.end_stream()
        connection.start_stream(content_type)
        connection.on_lost = lambda: self._drop(connection)
        self._streams[connection] = content_type
        self._cluster.subscribers = len(self._streams)
        first = (operator_events.subscribed(self._cluster), operator_events.HEARTBEAT)
        self._send(connection, first)
        self._arm(connection, self._now())

    def _drop(self, connection: Connection) -> None:
        self._streams.pop(connection, None)
        self._cluster.subscribers = len(self._streams)
        connection.on_lost = None

    def _arm(self, connection: Connection, now: float) -> None:
        def beat(when: float) -> None:
            if connection in self._streams:
                self._send(connection, [operator_events.HEARTBEAT])
                self._arm(connection, when)

        self._cluster.deadlines.at(now + self._cluster.config.heartbeat_interval, beat)

    def _send(self, connection: Connection, events: Iterable[master.Event]) -> None:
        content_type = self._streams[connection]
        connection.send_records([rendered(event, content_type) for event in events])

    def flush(self) -> None:
        """Send the queued events."""
        events, self._cluster.outbox.operator_events = self._cluster.outbox.operator_events, []
        if not events:
            return
        known: dict[str, list[bytes]] = {}
        for connection, content_type in self._streams.items():
            if content_type not in known:
                known[content_type] = [rendered(event, content_type) for event in events]
            connection.send_records(known[content_type])

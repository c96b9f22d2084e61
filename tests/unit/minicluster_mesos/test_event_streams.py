"""Operators who watch a cluster: heartbeats, those who leave, and how many there may be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from minicluster.mesos.common.http import Connection
from minicluster.mesos.common.http_messages import JSON
from minicluster.mesos.master import event_streams
from minicluster.mesos.master.core import operator_events
from minicluster.mesos.master.core.state import Master
from minicluster.mesos.master.event_streams import EventStreams
from tests.unit.minicluster_mesos.clusters import new_cluster, register, subscribe


class _Connection:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.ended = False
        self.on_lost: Callable[[], None] | None = None

    def start_stream(self, content_type: str) -> None:
        assert content_type == JSON

    def send_records(self, records: list[bytes]) -> None:
        self.told += [json.loads(each) for each in records]

    def end_stream(self) -> None:
        self.ended = True

    @property
    def types(self) -> list[str]:
        return [each["type"] for each in self.told]


def watching_one(cluster: Master, held: EventStreams) -> _Connection:
    connection = _Connection()
    held.add(cast(Connection, connection), JSON)
    return connection


def test_a_subscriber_gets_events_and_heartbeats() -> None:
    cluster = new_cluster()
    held = EventStreams(cluster, lambda: 100.0)
    one = watching_one(cluster, held)
    assert one.types == ["SUBSCRIBED", "HEARTBEAT"]
    register(cluster)
    subscribe(cluster)
    held.flush()
    assert one.types[2:] == ["AGENT_ADDED", "FRAMEWORK_ADDED"]
    cluster.deadlines.run(100.0 + cluster.config.heartbeat_interval)
    assert one.types[-1] == "HEARTBEAT"


def test_no_event_is_queued_without_subscribers() -> None:
    cluster = new_cluster()
    held = EventStreams(cluster, lambda: 0.0)
    one = watching_one(cluster, held)
    assert one.on_lost is not None
    one.on_lost()
    register(cluster)
    operator_events.agent_added(cluster, next(iter(cluster.agents.values())))
    assert cluster.subscribers == 0 and cluster.outbox.operator_events == []
    cluster.deadlines.run(cluster.config.heartbeat_interval)
    assert one.types == ["SUBSCRIBED", "HEARTBEAT"]


def test_the_oldest_subscriber_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MAX_SUBSCRIBERS", 2)
    cluster = new_cluster()
    held = EventStreams(cluster, lambda: 0.0)
    three = [watching_one(cluster, held) for _ in range(3)]
    assert [each.ended for each in three] == [True, False, False]
    assert cluster.subscribers == 2

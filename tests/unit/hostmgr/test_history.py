"""What happened to hosts, as operators are told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hostmgr.core.agents.maintenance_records import Records
from hostmgr.core.hosts.history import MOST_CHANGES
from hostmgr.drivers.history import HostHistory
from hostmgr.drivers.records import HostRecords
from hostmgr.services.history import HistoryService
from peloton.clock import ManualClock, rfc3339
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.host import HostInfo
from peloton.model.known_host import KnownHost, LossReason
from peloton.model.states import HostState
from peloton.private.hostmgr.history import history_pb2 as pb
from storage.histories.events import EventLog
from tests.unit.blocks import Blocks


class Store:
    """Hosts in a store that can fail."""

    def __init__(self) -> None:
        self.fails = False

    async def all(self) -> list[HostInfo]:
        return []

    async def write(self, record: HostInfo) -> None:
        if self.fails:
            raise Unavailable("the store does not answer")

    async def delete(self, hostname: str) -> None:
        await self.write(HostInfo(hostname, "", HostState.UP, HostState.UP))


def moved(clock: ManualClock, state: HostState, goal: HostState) -> HostInfo:
    return HostInfo("a", "", state, goal, since=clock.wall())


async def change(records: HostRecords, record: HostInfo) -> None:
    await records.change(record.hostname, lambda _: record)


def store_that(fails: bool = False) -> Any:
    store = Store()
    store.fails = fails
    return store


async def ask(service: HistoryService, hostname: str = "a") -> pb.GetHistoryResponse:
    return await service.GetHistory(pb.GetHistoryRequest(hostname=hostname), None)


async def test_each_change_is_told_with_its_time() -> None:
    clock = ManualClock()
    history = HostHistory(clock)
    records = HostRecords(store_that(), "", history)
    service = HistoryService(history, records.records)
    for seconds, state, goal in (
        (1, HostState.DRAINING, HostState.DOWN),
        (2, HostState.DOWN, HostState.DOWN),
        (3, HostState.DOWN, HostState.UP),
        (4, HostState.UP, HostState.UP),
    ):
        clock.now = seconds
        await change(records, moved(clock, state, goal))
        if state is HostState.DRAINING:
            assert (await ask(service)).in_state_since == rfc3339(clock.wall())
    clock.now = 5
    history.note_pool("a", "default", "shared")
    answer = await ask(service)
    assert [(pb.Change.Kind.Name(each.kind), each.before, each.after) for each in answer.changes] == [
        ("KIND_STATE", "UP", "DRAINING"),
        ("KIND_STATE", "DRAINING", "DOWN"),
        ("KIND_GOAL", "DOWN", "UP"),
        ("KIND_STATE", "DOWN", "UP"),
        ("KIND_POOL", "default", "shared"),
    ]
    times = [each.time for each in answer.changes]
    assert times == [rfc3339(clock.epoch + second * 10**9) for second in range(1, 6)]
    assert (answer.begin, answer.in_state_since) == (rfc3339(clock.epoch), "")
    assert not (await ask(service, "b")).changes


async def test_what_was_not_stored_did_not_happen() -> None:
    clock = ManualClock()
    history = HostHistory(clock)
    records = HostRecords(store_that(fails=True), "", history)
    with pytest.raises(Unavailable):
        await change(records, moved(clock, HostState.DRAINING, HostState.DOWN))
    assert not history.changes.of("a")


async def test_the_oldest_changes_go_first() -> None:
    history = HostHistory(ManualClock())
    for number in range(MOST_CHANGES + 3):
        history.note_pool("a", str(number), str(number + 1))
    assert [each.before for each in history.changes.of("a")] == [str(n) for n in range(3, MOST_CHANGES + 3)]


def stored_of(history: HostHistory) -> EventLog:
    assert history.stored is not None
    return history.stored


def lost(name: str, since: int = 0) -> KnownHost:
    return KnownHost(name, lost_since=since, reason=LossReason.REMOVED)


async def test_the_next_leader_tells_what_happened_before_it() -> None:
    clock, blocks = ManualClock(), Blocks()
    first = HostHistory(clock, blocks, "peloton")
    clock.now = 1
    first.note_pool("a", "default", "shared")
    clock.now = 2
    first.note_pool("b", "default", "batch")
    await stored_of(first).write()
    clock.now = 3
    second = HostHistory(clock, blocks, "peloton")
    running = asyncio.create_task(second.run())
    async with asyncio.timeout(60):
        while not second.changes.of("a"):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    running.cancel()
    clock.now = 4
    second.note_pool("a", "shared", "batch")
    service = HistoryService(second, Records())
    assert [each.after for each in (await ask(service)).changes] == ["shared", "batch"]
    assert (await ask(service)).begin < rfc3339(clock.epoch - 34 * 86_400 * 10**9)
    listed = await service.ListChanges(pb.ListChangesRequest(), None)
    assert [(each.hostname, each.change.after) for each in listed.changes] == [
        ("a", "batch"),
        ("b", "batch"),
        ("a", "shared"),
    ]
    before = pb.ListChangesRequest(before=clock.epoch / 10**9 + 3.5, limit=1)
    assert [each.hostname for each in (await service.ListChanges(before, None)).changes] == ["b"]
    with pytest.raises(InvalidArgument, match="limit"):
        await service.ListChanges(pb.ListChangesRequest(limit=1001), None)
    other = HistoryService(HostHistory(clock, blocks, "another framework"), Records())
    assert not (await other.ListChanges(pb.ListChangesRequest(), None)).changes


async def test_a_host_that_is_lost_and_comes_back_is_told() -> None:
    clock, blocks = ManualClock(), Blocks()
    history = HostHistory(clock, blocks)
    clock.now = 5
    history.note_presence(lost("a", clock.wall()))
    clock.now = 9
    history.note_presence(replace(lost("a"), lost_since=0))
    changes = (await ask(HistoryService(history, Records()))).changes
    assert [(pb.Change.Kind.Name(each.kind), each.before, each.after, each.reason) for each in changes] == [
        ("KIND_PRESENCE", "REGISTERED", "LOST", "Mesos has given up its agent"),
        ("KIND_PRESENCE", "LOST", "REGISTERED", ""),
    ]


async def test_changes_of_a_kind_that_is_not_known_are_left_out() -> None:
    clock, blocks = ManualClock(), Blocks()
    history = HostHistory(clock, blocks)
    stored_of(history).add({"at": 5.0, "host": "a", "kind": "of a later version"})
    history.note_pool("a", "default", "shared")
    assert [each.change.after for each in await history.last(10)] == ["shared"]


async def test_a_host_must_be_named() -> None:
    clock = ManualClock()
    history = HostHistory(clock)
    with pytest.raises(InvalidArgument, match="hostname"):
        await ask(HistoryService(history, Records()), "")

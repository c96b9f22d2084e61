"""A status' way through the ring and back to Mesos as an acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostmgr.backend.interface import Listener
from hostmgr.core.claims.holds import Holds
from hostmgr.core.cluster_manager.events import Registration
from hostmgr.core.cluster_manager.reconciliation import ReconcileKind, Reconciler, ReconciliationLimits
from hostmgr.core.cluster_manager.status_rules import StatusRules
from hostmgr.core.runs.launches import Launches, LaunchLimits
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.state.table import HostTable
from hostmgr.drivers.status_updates import CLIENTS, HOLDER, Entry, StatusUpdates
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.mesos.statuses import status_from
from hostmgr.services.early_acknowledgements import EarlyAcknowledgements
from hostmgr.services.events import EventStream
from mesos.v1 import mesos_pb2
from peloton.errors import Unavailable
from peloton.eventstream import EventRing, StreamChanged
from peloton.mesos.calls import Call
from peloton.mesos.connection import MesosDriver
from peloton.mesos.detector import MasterAddress
from peloton.model.shard import SHARDS, shard_of
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.private.hostmgr.passing import passing_pb2
from peloton.wire import eventstream

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"


class Mesos:
    """Keeps the calls; may be away."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.away = False
        self.ready = True

    def send(self, *calls: Call) -> None:
        if self.away:
            raise Unavailable("away")
        self.calls += calls

    def send_each(self, calls: Iterable[Call]) -> None:
        """Keep a copy of each call: the next one may be the same message anew."""
        for call in calls:
            kept = Call()
            kept.CopyFrom(call)
            self.send(kept)

    async def drain(self) -> None:
        if self.away:
            raise Unavailable("away")

    @property
    def acknowledged(self) -> list[bytes]:
        return [call.acknowledge.uuid for call in self.calls]


def status(run: int, state: int, uuid: bytes = b"", agent: str = "S1") -> mesos_pb2.TaskStatus:
    return mesos_pb2.TaskStatus(
        task_id=mesos_pb2.TaskID(value=f"{JOB}-0-{run}"),
        state=mesos_pb2.TaskState.ValueType(state),
        agent_id=mesos_pb2.AgentID(value=agent),
        uuid=uuid or None,
    )


class Ignored:
    """A listener of which only the registration is used."""

    async def on_connected(self, registration: Registration) -> None:
        """Accept every registration."""


class Fixture:
    def __init__(self, capacity: int = 4) -> None:
        self.now = 0.0
        self.runs = Runs()
        self.reconciler = Reconciler(ReconciliationLimits())
        self.ring: EventRing[Entry] = EventRing("s1", CLIENTS, HOLDER, capacity, SHARDS)
        self.table = HostTable()
        self.launches = Launches(self.table, LaunchLimits())
        self.rules = StatusRules(self.runs, self.launches, self.reconciler, Holds())
        self.statuses = StatusUpdates(self.ring, self.rules, lambda: self.now)
        self.mesos = Mesos()
        driver, unused = cast(MesosDriver, self.mesos), cast(AgentReader, None)
        self.backend = MesosBackend(lambda handler: driver, unused, cast(Any, None))
        self.backend.attach(cast(Listener, Ignored()))

    async def subscribe(self) -> None:
        await self.backend.on_subscribed("f1", MasterAddress("m", 5050), "m1")
        self.statuses.connected()

    def take(self, statuses: Iterable[mesos_pb2.TaskStatus]) -> None:
        self.statuses.take(map(status_from, statuses))

    async def settle(self) -> None:
        """Let the acknowledger do what it can."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def passed(self, offset: int) -> list[int]:
        """jobmgr has stored all below `offset`; the offsets that it reads next."""
        events = await self.statuses.wait("jobmgr", "s1", offset, offset, 100, 0)
        await self.settle()
        return [each.offset for each in events]


@pytest.fixture
async def it() -> AsyncIterator[Fixture]:
    fixture = Fixture()
    await fixture.subscribe()
    task = asyncio.create_task(fixture.statuses.acknowledge(fixture.backend))
    yield fixture
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


ANYBODY = SimpleNamespace(invocation_metadata=tuple)
"""The context of a call that says nothing of itself."""
INVALID = mesos_pb2.TaskStatus.REASON_TASK_INVALID
RUNNING, FINISHED, UNKNOWN = mesos_pb2.TASK_RUNNING, mesos_pb2.TASK_FINISHED, mesos_pb2.TASK_UNKNOWN


async def test_acknowledged_when_passed_and_not_before(it: Fixture) -> None:
    it.take([status(1, RUNNING, b"u1"), status(1, FINISHED), status(2, RUNNING, b"u2")])
    assert await it.passed(0) == [0, 1, 2]
    assert it.mesos.acknowledged == []
    assert await it.passed(2) == [2]
    assert it.mesos.acknowledged == [b"u1"], "the master's own status has no uuid"
    await it.passed(3)
    assert it.mesos.acknowledged == [b"u1", b"u2"]
    call = it.mesos.calls[0]
    assert (call.framework_id.value, call.acknowledge.agent_id.value) == ("f1", "S1")


async def test_the_owner_of_a_shard_passes_its_events_whatever_the_others_do(it: Fixture) -> None:
    it.take([status(1, RUNNING, b"u1"), status(2, RUNNING, b"u2")])
    mine = {shard_of(JOB)}
    others = set(range(SHARDS)) - mine
    assert await it.statuses.wait_for_shards("jobmgr", "s1", 0, 0, 100, 0, others) == ([], 2)
    events, end = await it.statuses.wait_for_shards("jobmgr", "s1", 0, 0, 1, 0, mine)
    assert ([each.offset for each in events], end) == ([0], 1)
    await it.statuses.wait_for_shards("jobmgr", "s1", 1, 1, 1, 0, mine)
    await it.settle()
    assert it.mesos.acknowledged == [b"u1"]
    assert it.ring.first == 0, "others have not passed what is before it"
    it.ring.purge("resmgr", "s1", 2, 2)
    await it.statuses.wait_for_shards("jobmgr", "s1", 2, 2, 1, 0, others)
    assert it.ring.first == 1


async def test_what_is_passed_early_is_acknowledged_at_once_and_only_once(it: Fixture) -> None:
    it.take([status(1, RUNNING, b"u1"), status(2, RUNNING, b"u2"), status(3, RUNNING, b"u3")])
    service = EarlyAcknowledgements(it.statuses)
    await service.PassEvents(passing_pb2.PassEventsRequest(stream_id="s1", offsets=[1]), None)
    await it.settle()
    assert it.mesos.acknowledged == [b"u2"]
    await it.passed(3)
    assert it.mesos.acknowledged == [b"u2", b"u1", b"u3"]
    with pytest.raises(StreamChanged, match="the stream is s1 now"):
        await service.PassEvents(passing_pb2.PassEventsRequest(stream_id="s0", offsets=[1]), None)


async def test_a_state_that_is_not_known_is_acknowledged_and_left(it: Fixture) -> None:
    strange = status(1, RUNNING, b"u1")
    strange.ClearField("state")
    it.take([strange, status(1, FINISHED, b"u2")])
    await it.settle()
    assert it.mesos.acknowledged == [b"u1"]
    events = await it.statuses.wait("jobmgr", "s1", 0, 0, 100, 0)
    (event,) = eventstream.decoded(each.event.encoded for each in events)
    assert event.mesosTaskStatus.uuid == b"u2"


async def test_a_second_launch_that_is_refused_is_no_end_of_the_first(it: Fixture) -> None:
    refused = status(1, mesos_pb2.TASK_ERROR)
    refused.reason, refused.message = INVALID, f"Task has duplicate ID: {JOB}-0-1"
    it.take([status(1, RUNNING, b"u1"), refused])
    assert await it.passed(0) == [0]
    assert it.runs.agent(f"{JOB}-0-1") == "S1", "it is still known to live"
    refused.message = "Task uses more resources than available"
    it.take([refused])
    assert await it.passed(0) == [0, 1]


async def test_resmgr_acknowledges_nothing(it: Fixture) -> None:
    it.take([status(1, RUNNING, b"u1")])
    await it.statuses.wait("resmgr", "s1", 1, 1, 100, 0)
    await it.settle()
    assert it.mesos.calls == []


async def test_a_repeated_status_is_one_event_and_acknowledged_again_once_passed(it: Fixture) -> None:
    it.take([status(1, RUNNING, b"u1"), status(1, RUNNING, b"u1")])
    assert it.ring.end == 1
    await it.passed(1)
    it.take([status(1, RUNNING, b"u1")])
    await it.settle()
    assert it.ring.end == 1 and it.mesos.acknowledged == [b"u1", b"u1"]


async def test_a_status_passed_without_a_connection_is_acknowledged_when_repeated(
    it: Fixture,
) -> None:
    it.take([status(1, RUNNING, b"u1")])
    it.mesos.away = True
    it.statuses.disconnected()
    await it.passed(1)
    it.mesos.away = False
    it.statuses.connected()
    it.take([status(1, RUNNING, b"u1")])
    await it.settle()
    assert it.mesos.acknowledged == [b"u1"]


async def test_acknowledgements_that_were_refused_are_repeated_soon(it: Fixture) -> None:
    """While hostmgr does not know whether it leads, it sends nothing, though it is connected."""
    it.take([status(1, RUNNING, b"u1"), status(2, RUNNING, b"u2")])
    it.mesos.away = True
    await it.passed(2)
    it.mesos.away = False
    async with asyncio.timeout(60):
        while not it.mesos.acknowledged:  # noqa: ASYNC110 - it tries again by itself
            await asyncio.sleep(0.01)
    assert it.mesos.acknowledged == [b"u1", b"u2"]


async def test_a_full_ring_refuses_statuses_and_reconciles_unrepeated_ones(
    it: Fixture,
) -> None:
    it.reconciler.subscribed("m1", 0.0)
    while it.reconciler.next_reconciliation(1e6):
        if it.reconciler.next_reconciliation(1e6) is None:
            break
    it.take([status(run, RUNNING, b"u%d" % run) for run in range(1, 5)])
    it.take([status(5, RUNNING, b"u5")])
    assert it.ring.end == 4
    it.take([status(6, mesos_pb2.TASK_LOST)])
    assert it.ring.end == 4
    assert it.reconciler.next_reconciliation(60.0) is ReconcileKind.EXPLICIT
    await it.passed(1)
    it.take([status(5, RUNNING, b"u5")])
    assert it.ring.end == 5


async def test_a_waiting_client_is_woken_once_for_all_that_came(it: Fixture) -> None:
    waiting = asyncio.create_task(it.statuses.wait("jobmgr", "s1", 0, 0, 100, 30))
    await it.settle()
    assert not waiting.done()
    it.take([status(1, RUNNING, b"u1"), status(2, RUNNING, b"u2")])
    assert [each.offset for each in await waiting] == [0, 1]


async def test_a_wait_ends_with_its_time_or_with_leadership(it: Fixture) -> None:
    assert await it.statuses.wait("jobmgr", "s1", 0, 0, 100, 0.01) == []
    waiting = asyncio.create_task(it.statuses.wait("jobmgr", "s1", 0, 0, 100, 30))
    await it.settle()
    it.statuses.close()
    with pytest.raises(Unavailable):
        await waiting


async def test_runs_follow_the_statuses(it: Fixture) -> None:
    it.take([status(1, RUNNING, b"u1", agent="S1"), status(2, RUNNING, b"u2", agent="S2")])
    assert it.runs.agent(f"{JOB}-0-1") == "S1" and list(it.runs.on("S2")) == [f"{JOB}-0-2"]
    it.take([status(1, FINISHED, b"u3")])
    assert it.runs.agent(f"{JOB}-0-1") == ""


LOST, STARTING = mesos_pb2.TASK_LOST, mesos_pb2.TASK_STARTING


@pytest.mark.parametrize("late", [STARTING, RUNNING])
@pytest.mark.parametrize("end", [FINISHED, mesos_pb2.TASK_KILLED, mesos_pb2.TASK_FAILED])
async def test_a_status_older_than_the_end_brings_no_run_back(
    it: Fixture, end: mesos_pb2.TaskState.ValueType, late: mesos_pb2.TaskState.ValueType
) -> None:
    """It is acknowledged as each is; the host has neither the run nor a launch under way."""
    it.take([status(1, end, b"u2"), status(1, LOST), status(1, late, b"u1")])
    assert list(it.runs.on("S1")) == []
    assert it.table.starting("S1") == 0
    assert await it.passed(0) == [0, 1, 2]
    await it.passed(3)
    assert it.mesos.acknowledged == [b"u2", b"u1"]


async def test_a_lost_run_may_come_back(it: Fixture) -> None:
    it.take([status(1, LOST), status(1, RUNNING, b"u1")])
    assert list(it.runs.on("S1")) == [f"{JOB}-0-1"]


async def test_an_unknown_that_is_no_verdict_is_not_passed_on(it: Fixture) -> None:
    it.reconciler.subscribed("m1", 0.0)
    it.runs.put(f"{JOB}-0-1", "S1")
    it.take([status(1, UNKNOWN, agent="")])
    assert it.ring.end == 0 and it.runs.agent(f"{JOB}-0-1") == "S1"
    assert it.reconciler.due_retries(5.0) == [(f"{JOB}-0-1", "S1")]
    it.now = 600.0
    it.take([status(1, UNKNOWN, agent="")])
    assert it.ring.end == 1


async def test_reconciliation_waits_while_the_ring_is_crowded(it: Fixture) -> None:
    it.take([status(run, RUNNING, b"u%d" % run) for run in range(1, 4)])
    waiting = asyncio.create_task(it.statuses.uncrowded())
    await it.settle()
    assert not waiting.done()
    await it.passed(2)
    await waiting


async def test_errors_as_the_wire_has_them(it: Fixture) -> None:
    stream = EventStream(it.statuses)
    refused = await stream.InitStream(pb.InitStreamRequest(clientName="nobody"), ANYBODY)
    assert "nobody" in refused.error.clientUnsupported.message
    opened = await stream.InitStream(pb.InitStreamRequest(clientName="jobmgr"), ANYBODY)
    assert (opened.streamID, opened.minOffset, opened.previousPurgeOffset) == ("s1", 0, 0)

    async def wait(**fields: object) -> pb.WaitForEventsResponse:
        request = pb.WaitForEventsRequest(**{"clientName": "jobmgr", "streamID": "s1", **fields})  # type: ignore[arg-type]
        answer = await stream.WaitForEvents(request, ANYBODY)
        return pb.WaitForEventsResponse.FromString(answer) if isinstance(answer, bytes) else answer

    it.take([status(1, RUNNING, b"u1"), status(2, RUNNING, b"u2")])
    assert (await wait(streamID="s0")).error.invalidStreamID.currentStreamID == "s1"
    gone = (await wait(beginOffset=9)).error.outOfRange
    assert (gone.streamID, gone.minOffset, gone.maxOffset, gone.offsetRequested) == ("s1", 0, 1, 9)
    purge = (await wait(beginOffset=1, purgeOffset=2)).error.invalidPurgeOffset
    assert (purge.beginOffset, purge.purgeOffset) == (1, 2)
    assert (await wait(clientName="x")).error.HasField("clientUnsupported")
    answer = await wait(limit=1)
    assert [event.offset for event in answer.events] == [0]
    assert answer.events[0].type == pb.Event.MESOS_TASK_STATUS


async def test_launches_are_followed(it: Fixture) -> None:
    it.launches.begin(f"{JOB}-0-1", "S1")
    it.take([status(1, mesos_pb2.TASK_STAGING, b"1"), status(2, mesos_pb2.TASK_STARTING, b"2")])
    assert it.table.starting("S1") == 2, "one of them by an earlier hostmgr"
    failed = status(2, mesos_pb2.TASK_FAILED, b"3")
    failed.reason = mesos_pb2.TaskStatus.REASON_EXECUTOR_REGISTRATION_TIMEOUT
    it.take([status(1, mesos_pb2.TASK_RUNNING, b"4"), failed])
    assert it.table.starting("S1") == 0

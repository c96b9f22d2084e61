"""HostManager between a Mesos and a store that are stood in for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import pytest

from hostmgr.core.claims.claim import InvalidOffers
from hostmgr.core.cluster_manager.kills import CALLS_AT_ONCE
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term, TermLimits
from hostmgr.drivers import framework_removal
from hostmgr.drivers.framework import FrameworkRecord
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.status_updates import CLIENTS, HOLDER, Entry, StatusUpdates
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument, Unavailable
from peloton.eventstream import EventRing, Numbered
from peloton.mesos.calls import Call
from peloton.mesos.connection import MesosDriver
from peloton.mesos.detector import MasterAddress
from peloton.mesos.stream import Event
from peloton.model.shard import SHARDS
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire import eventstream
from peloton.wire.launch import launch_from

S = TaskState
JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
MASTER = MasterAddress("m", 5050)


class Driver:
    def __init__(self) -> None:
        self.ready = True
        self.fenced = False
        self.calls: list[Call] = []
        self.bursts: list[int] = [0]
        """How many calls were written before each wait for room."""

    def send(self, *calls: Call) -> None:
        if not self.ready or self.fenced:
            raise Unavailable("away")
        self.calls += calls
        self.bursts[-1] += len(calls)

    def send_each(self, calls: Iterable[Call]) -> None:
        """Keep a copy of each call: the next one may be the same message anew."""
        for call in calls:
            kept = Call()
            kept.CopyFrom(call)
            self.send(kept)

    async def drain(self) -> None:
        """There is always room."""
        self.bursts.append(0)


class Store:
    """The parts that hold the framework id, jobs and tasks."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.rows: dict[int, TaskRuntime] = {}
        self.failures = 0
        self.hosts = self.jobs = self.tasks = self

    async def active(self) -> list[str]:
        return [JOB] if self.rows else []

    async def list(self, job_id: str) -> AsyncIterator[dict[int, TaskRuntime]]:
        yield {i: row for i, row in self.rows.items() if i < 2}
        if self.failures:
            self.failures -= 1
            raise Unavailable("the store is away")
        yield {i: row for i, row in self.rows.items() if i >= 2}

    async def write_framework_id(self, name: str, framework_id: str) -> None:
        self.written.append(framework_id)


class Fixture:
    def __init__(self) -> None:
        self.driver, self.store, self.clock = Driver(), Store(), ManualClock()
        store: Any = self.store
        driver = cast(MesosDriver, self.driver)
        unused = cast(AgentReader, None)
        self.backend = MesosBackend(lambda handler: driver, unused, cast(Any, None))
        core = Term(HostTable(), TermLimits(claim_grace=10.0))
        ring: EventRing[Entry] = EventRing("s1", CLIENTS, HOLDER, 100, SHARDS)
        updates = StatusUpdates(ring, core.statuses, self.clock.monotonic)
        framework = FrameworkRecord(store, "Peloton")
        self.manager = HostManager(core, self.backend, framework, updates, self.clock)

    async def subscribe(self, master_id: str = "m1") -> None:
        await self.backend.on_subscribed("f-0000", MASTER, master_id)

    def offer(self, number: int, cpu: float = 4) -> None:
        event = Event(type=Event.OFFERS)
        offer = event.offers.offers.add(hostname="host0")
        offer.id.value, offer.agent_id.value, offer.framework_id.value = f"O{number}", "S0", "f-0000"
        for name, value in (("cpus", cpu), ("mem", 1024.0)):
            offer.resources.add(
                name=name, type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=value)
            )
        self.backend.on_events([event])

    def claim(self) -> str:
        (claim,) = self.manager.acquire(HostFilter(), "").claims
        return claim.id

    def launch(self, claim_id: str, *instances: int, hostname: str = "host0", cpu: float = 1) -> None:
        request = hostsvc_pb2.LaunchTasksRequest(
            hostname=hostname, id=peloton_pb2.HostOfferID(value=claim_id)
        )
        for instance in instances:
            task = request.tasks.add()
            task.taskId.value = f"{JOB}-{instance}-1"
            task.config.resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=cpu, memLimitMb=10))
            task.config.command.value = "true"
        self.manager.launch(
            claim_id,
            hostname,
            "",
            [task.taskId.value for task in request.tasks],
            map(launch_from, request.tasks),
        )

    def types(self) -> list[str]:
        return [Call.Type.Name(call.type) for call in self.driver.calls]


@pytest.fixture
def it() -> Fixture:
    return Fixture()


async def test_the_framework_id_is_stored_once(it: Fixture) -> None:
    await it.subscribe()
    await it.subscribe()
    assert it.store.written == ["f-0000"]
    await it.backend.on_framework_removed()
    assert it.store.written == ["f-0000", ""]


async def test_runs_of_a_removed_framework_are_reported_before_its_id_is_forgotten(
    it: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework_removal, "RETRY_SECONDS", 0.01)
    await it.subscribe()
    states = (S.RUNNING, S.LAUNCHED, S.STARTING, S.KILLING, S.SUCCEEDED, S.PENDING)
    it.store.rows = {i: TaskRuntime(state, S.SUCCEEDED, 1, 1, 1, 1) for i, state in enumerate(states)}
    it.store.failures = 1
    removing = asyncio.create_task(it.manager.on_framework_removed())
    reported: list[Numbered[Entry]] = []
    updates = it.manager.status_updates
    async with asyncio.timeout(60):
        while len(reported) < 3:
            reported += await updates.wait("jobmgr", "s1", len(reported), 0, 100, 1.0)
    assert it.store.written == ["f-0000"], "jobmgr has not stored it"
    statuses = [each.mesosTaskStatus for each in eventstream.decoded(each.event.encoded for each in reported)]
    assert [each.task_id.value for each in statuses] == [f"{JOB}-{i}-1" for i in (0, 2, 3)]
    assert {each.state for each in statuses} == {mesos_pb2.TASK_KILLED}
    assert {each.reason for each in statuses} == {mesos_pb2.TaskStatus.REASON_FRAMEWORK_REMOVED}
    await updates.wait("jobmgr", "s1", 3, 3, 100, 0)
    await asyncio.wait_for(removing, 60)
    assert it.store.written == ["f-0000", ""]


async def test_one_accept_for_the_host_with_nothing_refused(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    it.offer(2)
    it.launch(it.claim(), 0, 1)
    (call,) = it.driver.calls
    assert call.type == Call.ACCEPT and call.accept.filters.refuse_seconds == 0
    assert [each.value for each in call.accept.offer_ids] == ["O1", "O2"]
    infos = call.accept.operations[0].launch.task_infos
    assert [info.task_id.value for info in infos] == [f"{JOB}-0-1", f"{JOB}-1-1"]
    assert {info.agent_id.value for info in infos} == {"S0"}
    assert it.manager.runs.agent(f"{JOB}-1-1") == "S0"


async def test_without_a_connection_nothing_is_launched_and_the_claim_is_kept(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    claim = it.claim()
    it.backend.on_disconnected("gone")
    assert it.manager.core.connection.unhealthy
    with pytest.raises(Unavailable):
        it.launch(claim, 0)
    await it.subscribe()
    with pytest.raises(Unavailable, match="has not been offered again"):
        it.launch(claim, 0)
    it.offer(2)
    it.launch(claim, 0)
    assert it.types() == ["ACCEPT"]


async def test_a_host_that_does_not_register_again_is_removed(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    claim = it.claim()
    it.backend.on_disconnected("gone")
    await it.subscribe()
    it.clock.advance(10.0)
    with pytest.raises(InvalidOffers):
        it.launch(claim, 0)
    assert it.manager.hosts.claims.get(claim) is None


@pytest.mark.parametrize(
    ("launch", "error"),
    [
        ({"instances": (0,), "cpu": 99}, InvalidOffers),
        ({"instances": (0, 0)}, InvalidArgument),
    ],
)
async def test_a_refused_launch_frees_the_host(it: Fixture, launch: Any, error: type[Exception]) -> None:
    await it.subscribe()
    it.offer(1)
    claim = it.claim()
    with pytest.raises(error):
        it.launch(claim, *launch.pop("instances"), **launch)
    assert it.driver.calls == []
    assert it.claim() != claim


async def test_a_foreign_launch_leaves_the_claim_to_its_owner(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    claim = it.claim()
    with pytest.raises(InvalidOffers):
        it.launch(claim, 0, hostname="host1")
    it.launch(claim, 0)


async def test_kills_go_to_the_runs_agent_and_again_after_a_new_subscription(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    it.launch(it.claim(), 0)
    it.manager.kill([f"{JOB}-0-1", f"{JOB}-9-9"])
    known, unknown = it.driver.calls[1:]
    assert known.kill.agent_id.value == "S0" and not unknown.kill.HasField("agent_id")
    it.driver.calls.clear()
    await it.manager.repeat_kills()
    assert [call.kill.task_id.value for call in it.driver.calls] == [f"{JOB}-0-1"]


async def test_many_kills_are_repeated_as_there_is_room(it: Fixture) -> None:
    await it.subscribe()
    runs = [f"{JOB}-{number}-1" for number in range(2 * CALLS_AT_ONCE + 1)]
    for run in runs:
        it.manager.runs.put(run, "S0")
    it.manager.kill(runs)
    it.driver.bursts = [0]
    await it.manager.repeat_kills()
    assert it.driver.bursts == [CALLS_AT_ONCE, CALLS_AT_ONCE, 1, 0]


async def test_unconfirmed_launches_are_reconciled_after_a_new_subscription(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    it.launch(it.claim(), 0)
    it.backend.on_disconnected("gone")
    await it.subscribe()
    assert it.manager.core.reconciler.due_retries(it.clock.monotonic()) == [(f"{JOB}-0-1", "S0")]


def missing(run: str, state: Any = mesos_pb2.TASK_GONE) -> Event:
    """Mesos' answer about a run that it does not have."""
    event = Event(type=Event.UPDATE)
    event.update.status.task_id.value, event.update.status.state = run, state
    event.update.status.reason = mesos_pb2.TaskStatus.REASON_RECONCILIATION
    return event


async def test_what_was_reported_as_lost_is_not_launched_any_more(it: Fixture) -> None:
    """A store that is slow may show a run as LAUNCHED long before jobmgr can launch it."""
    await it.subscribe()
    it.backend.on_events([missing(f"{JOB}-1-1")])
    assert it.manager.status_updates.ring.pending == 1
    it.offer(1)
    with pytest.raises(InvalidOffers, match=f"reported as lost before the launch: {JOB}-1-1"):
        it.launch(it.claim(), 0, 1)
    it.launch(it.claim(), 0)
    assert it.types() == ["ACCEPT"]


async def test_an_answer_to_a_request_from_before_the_launch_is_ignored(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    it.manager.reconcile([(f"{JOB}-0-1", "S0")])
    it.launch(it.claim(), 0)
    it.backend.on_events([missing(f"{JOB}-0-1")])
    assert it.manager.status_updates.ring.pending == 0
    assert it.manager.runs.agent(f"{JOB}-0-1") == "S0"
    it.backend.on_events([missing(f"{JOB}-0-1")])
    assert it.manager.status_updates.ring.pending == 0, "it may have been requested twice before"
    it.clock.advance(3)
    assert it.manager.core.reconciler.due_retries(it.clock.monotonic()) == [(f"{JOB}-0-1", "S0")]
    it.backend.on_events([missing(f"{JOB}-0-1")])
    assert it.manager.status_updates.ring.pending == 1


async def test_a_launch_that_is_repeated_after_its_run_was_lost_changes_nothing(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    claim = it.claim()
    it.launch(claim, 0)
    it.backend.on_events([missing(f"{JOB}-0-1")])
    it.clock.advance(3)
    it.manager.core.reconciler.due_retries(it.clock.monotonic())
    it.backend.on_events([missing(f"{JOB}-0-1")])
    assert it.manager.status_updates.ring.pending == 1
    it.launch(claim, 0)
    assert it.types() == ["ACCEPT"]


async def test_a_lost_agent_and_the_end_of_an_executor(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    failure = Event(type=Event.FAILURE)
    failure.failure.agent_id.value = "S0"
    failure.failure.executor_id.value = "e"
    it.backend.on_events([failure])
    assert len(list(it.manager.hosts.offers)) == 1
    failure.failure.ClearField("executor_id")
    it.backend.on_events([failure])
    assert list(it.manager.hosts.offers) == []


async def test_rescinded_offers_go(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    rescind = Event(type=Event.RESCIND)
    rescind.rescind.offer_id.value = "O1"
    it.backend.on_events([rescind, rescind])
    assert list(it.manager.hosts.offers) == []


async def test_old_offers_are_kept_while_nothing_may_be_sent(it: Fixture) -> None:
    await it.subscribe()
    it.offer(1)
    it.clock.advance(11 * 86400)
    it.driver.fenced = True
    it.manager.prune_offers()
    assert len(list(it.manager.hosts.offers)) == 1
    it.driver.fenced = False
    it.manager.prune_offers()
    assert it.types() == ["DECLINE"] and list(it.manager.hosts.offers) == []


async def test_a_refused_call_leads_to_a_reconciliation(it: Fixture) -> None:
    await it.subscribe()
    while it.manager.core.reconciler.next_reconciliation(1e4) is not None:
        pass
    it.clock.advance(1e4)
    it.backend.on_refused("ACCEPT", 400, "no")
    assert it.manager.core.reconciler.next_reconciliation(1e4 + 60) is not None

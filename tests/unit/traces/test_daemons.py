"""The spans that each daemon makes on the way of a run."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace.status import StatusCode

from hostmgr.core.cluster_manager.events import StatusUpdate
from hostmgr.drivers.traces import TracedRuns as LaunchedRuns
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from mesos.v1 import mesos_pb2
from peloton.calls.rpc import Rpc
from peloton.daemon.tracing import TRACES
from peloton.model.ids import parse_mesos_task_id
from peloton.model.states import TaskState, TaskType
from peloton.model.task import TaskStatus
from peloton.model.workflow import WorkflowOptions
from peloton.private.resmgr.placing import placing_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from placement.clients import ResmgrClient
from placement.core.model import HostPlacement, Unplaced
from storage.interface import Store
from tests.unit.hostmgr.test_manager import JOB as HOSTMGR_JOB
from tests.unit.hostmgr.test_manager import Fixture
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import ended, next_leader, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.unit.placement.samples import host
from tests.unit.resmgr.shell import Shell, run_id, wire_gang
from tests.unit.traces.conftest import Begin, Collected, instance


async def test_jobmgr_traces_creation_enqueueing_launch_and_run(store: Store, spans: Collected) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(3))
        await reach(running.engine, TaskState.RUNNING, 3)
        create = spans.one("create")
        assert (create.attributes or {})["peloton.job.instances"] == 3
        assert sorted(map(instance, spans.named("run"))) == [0, 1], "of the first two instances only"
        for run in spans.named("run"):
            states = [event.name for event in run.events]
            assert states[0] == "INITIALIZED" and states[-1] == "RUNNING" and "LAUNCHED" in states
            assert (run.attributes or {})["peloton.host"]
            parts = [span for span in spans.all if span.parent and span.parent.span_id == run.context.span_id]
            assert sorted(span.name for span in parts) == ["enqueue", "launch"]
        for alive in list(world.alive):
            world.status(alive, mesos_pb2.TASK_FINISHED)
        await ended(running.engine)
    assert len(spans.named("run")) == 2, "the end of a run that was RUNNING is no second one"


async def test_a_service_is_traced_as_well(store: Store, spans: Collected) -> None:
    async with Running(Engine(store), World(runs_on)) as running:
        await Workflows(running.engine).create_job(JOB, service(3), WorkflowOptions())
        await reach(running.engine, TaskState.RUNNING, 3)
        assert (spans.one("create").attributes or {})["peloton.job.type"] == "SERVICE"
        assert sorted(map(instance, spans.named("run"))) == [0, 1]


async def test_a_run_that_never_ran_is_a_failed_span(store: Store, spans: Collected) -> None:
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await reach(running.engine, TaskState.PENDING, 1)
        await running.engine.stop(JOB, None)
        await ended(running.engine)
    run = spans.one("run")
    assert run.status.status_code is StatusCode.ERROR
    assert str(run.status.description).startswith("KILLED")


async def test_a_job_that_is_not_chosen_makes_no_span(store: Store, begin: Begin) -> None:
    spans = begin(ratio=1e-9)
    assert TRACES.on and not TRACES.follows_job(JOB)
    async with Running(Engine(store), World()) as running:
        await running.engine.create_job(JOB, spec(2))
        await ended(running.engine)
    assert spans.all == []


async def test_the_next_leader_goes_on_with_a_run(store: Store, begin: Begin) -> None:
    first, world = begin(), World(runs_on)
    world.hold = True
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(1))
        await reach(running.engine, TaskState.PENDING, 1)
    assert not first.named("run")
    second, world = begin(), World(runs_on)
    async with Running(await next_leader(store), world) as running:
        await reach(running.engine, TaskState.RUNNING, 1)
    run = second.one("run")
    assert run.parent is not None and run.parent.span_id == first.one("create").context.span_id


async def test_resmgr_traces_the_queue_and_the_way_to_jobmgr(shell: Shell, spans: Collected) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0), wire_gang(7))
    gangs = await shell.dequeue()
    queue = spans.one("queue")
    assert instance(queue) == 0
    assert (queue.attributes or {})["peloton.pool"] == "/a"
    await shell.place(*gangs)
    assert not spans.named("hand over")
    await shell.hand_over()
    assert (spans.one("hand over").attributes or {})["peloton.host"] == "h1"


class Resmgr:
    def __init__(self) -> None:
        self.answers = {
            "DequeueGangs": resmgrsvc_pb2.DequeueGangsResponse(
                gangs=[wire_gang(0), wire_gang(1), wire_gang(9)]
            ),
            "SetPlacements": resmgrsvc_pb2.SetPlacementsResponse(),
            "GiveBack": placing_pb2.GiveBackResponse(),
        }

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        method = rpc.name
        return self.answers[method]


async def test_placement_traces_gangs_from_their_arrival_to_their_host_or_return(spans: Collected) -> None:
    resmgr: Any = Resmgr()
    queue = ResmgrClient(resmgr, TaskType.BATCH)
    placed, failed, other = await queue.take(10, 1.0)
    assert spans.all == []
    await queue.report([HostPlacement(host(4), placed.tasks, ()), HostPlacement(host(5), other.tasks, ())])
    [span] = spans.named("place")
    assert (span.attributes or {})["peloton.host"] == "host-4"
    assert (span.attributes or {})["peloton.task_type"] == "BATCH"
    await queue.give_back([Unplaced(failed, "no host fits")])
    [_, span] = spans.named("place")
    assert (instance(span), span.status.description) == (1, "no host fits")


async def test_a_placement_that_is_rejected_is_a_failed_span(spans: Collected) -> None:
    resmgr: Any = Resmgr()
    queue = ResmgrClient(resmgr, TaskType.BATCH)
    [gang, *_] = await queue.take(10, 1.0)
    rejected = resmgr.answers["SetPlacements"].error.failure.failed.add(message=f"{run_id(0)}: too late")
    rejected.placement.taskIDs.add().mesosTaskID.value = run_id(0)
    await queue.report([HostPlacement(host(), gang.tasks, ())])
    assert "too late" in str(spans.one("place").status.description)


async def test_hostmgr_traces_a_launch_until_the_agent_reports(spans: Collected) -> None:
    it = Fixture()
    await it.subscribe()
    it.offer(1)
    claim = it.claim()
    it.launch(claim, 0, 5)
    it.launch(claim, 0, 5)
    assert spans.all == []
    for state in (mesos_pb2.TASK_STARTING, mesos_pb2.TASK_RUNNING, mesos_pb2.TASK_FINISHED):
        event = mesos_pb2.TaskStatus(state=state)
        event.task_id.value, event.agent_id.value = f"{HOSTMGR_JOB}-0-1", "S0"
        it.backend.on_events([_update(event)])
    span = spans.one("start")
    assert ((span.attributes or {})["peloton.host"], span.status.status_code) == ("host0", StatusCode.UNSET)


def _update(status: mesos_pb2.TaskStatus) -> Any:
    from peloton.mesos.stream import Event

    event = Event(type=Event.UPDATE)
    event.update.status.CopyFrom(status)
    return event


def test_a_task_that_does_not_start_is_a_failed_span(spans: Collected) -> None:
    runs = LaunchedRuns()
    run = f"{HOSTMGR_JOB}-1-1"
    runs.launched([run, "foreign"], "h")
    status = TaskStatus(run, TaskState.FAILED, 1, message="no such image")
    runs.reported([StatusUpdate(status, False, False, None)])
    runs.reported([StatusUpdate(status, False, False, None)])
    span = spans.one("start")
    assert span.status.description == "FAILED: no such image"
    assert instance(span) == parse_mesos_task_id(run).instance

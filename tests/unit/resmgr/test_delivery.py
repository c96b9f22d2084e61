from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import psutil
import pytest
import pytest_asyncio

from peloton.errors import Fenced
from peloton.model.states import TaskState, TaskType
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import (
    ResourceManagerServiceStub,
    add_ResourceManagerServiceServicer_to_server,
)
from peloton.rpc.server import RpcServer, service
from resmgr.core.scheduler import Scheduler
from resmgr.services import delivery, tasks
from tests.unit.resmgr.shell import Context, Shell, run_id, wire_gang
from tests.unit.resmgr.world import JOBMGR, World, needs
from tests.waiting import until

AS_ENGINE = (("peloton-instance", "placement/one"),)
AS_JOBMGR = (("peloton-instance", "jobmgr/one"),)


@pytest_asyncio.fixture
async def stub(shell: Shell) -> AsyncIterator[Any]:
    server = RpcServer(lambda: "no leader")
    server.activate([service(add_ResourceManagerServiceServicer_to_server, shell.tasks)])
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        made: Any = ResourceManagerServiceStub(channel)
        made.target = f"127.0.0.1:{port}"
        yield made
    await server.stop(0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Answers are held up right before they are returned; one entry for each."""
    there: list[Callable[[], None]] = []

    async def hold(context: Any, undo: Callable[[], None]) -> None:
        await delivery.delivered(context, undo)
        there.append(undo)
        await asyncio.Event().wait()

    monkeypatch.setattr(tasks, "delivered", hold)
    return there


PATIENCE_SECONDS = 60.0
DEQUEUE = pb.DequeueGangsRequest(limit=10, type=resmgr_pb2.BATCH)


async def test_gangs_whose_caller_cancelled_are_ready_again(
    shell: Shell, stub: Any, held: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0), wire_gang(1))
    call = stub.DequeueGangs(DEQUEUE, metadata=AS_ENGINE)
    await until(lambda: held)
    assert set((await shell.states()).values()) == {"PLACING"}
    call.cancel()
    await until(lambda: len(shell.driver.scheduler.ready[1]) == 2)  # type: ignore[index]
    assert set((await shell.states()).values()) == {"READY"}
    monkeypatch.undo()
    answer = await stub.DequeueGangs(DEQUEUE, metadata=AS_ENGINE)
    got = [task.taskId.value for gang in answer.gangs for task in gang.tasks]
    assert got == [run_id(0), run_id(1)], "in the order in which they stood"
    assert answer.gangs[0].tasks[0].placementRetryCount == 0, "no try is counted"


async def test_placements_whose_caller_gave_up_wait_again(
    shell: Shell, stub: Any, held: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    monkeypatch.setattr(tasks, "delivered", delivery.delivered)
    [gang] = await shell.dequeue()
    await shell.place(gang)
    monkeypatch.undo()
    monkeypatch.setattr(tasks, "delivered", _forever)
    with pytest.raises(grpc.aio.AioRpcError) as late:
        await stub.GetPlacements(pb.GetPlacementsRequest(limit=10), metadata=AS_JOBMGR, timeout=0.2)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: shell.driver.scheduler.placements)
    assert await shell.states() == {run_id(0): "PLACED"}
    monkeypatch.undo()
    answer = await stub.GetPlacements(pb.GetPlacementsRequest(limit=10), metadata=AS_JOBMGR)
    assert [task.mesosTaskID.value for task in answer.placements[0].taskIDs] == [run_id(0)]


async def _forever(context: Any, undo: Callable[[], None]) -> None:
    await delivery.delivered(context, undo)
    await asyncio.Event().wait()


@pytest.mark.parametrize("number", range(20))
async def test_a_cancellation_that_came_while_it_was_handed_out_is_seen(
    shell: Shell, stub: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The event loop is blocked while gangs are dequeued, so that it does not know of the cancellation."""
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    target = stub.target
    dequeue, called = Scheduler.dequeue, threading.Event()

    def slow(*arguments: Any) -> Any:
        gangs = dequeue(*arguments)
        called.set()
        assert cancelled.wait(PATIENCE_SECONDS)
        return gangs

    cancelled = threading.Event()
    monkeypatch.setattr(Scheduler, "dequeue", slow)
    others = set(connections_of(target))
    client = threading.Thread(target=cancelling, args=(target, others, called, cancelled))
    client.start()
    await until(lambda: cancelled.is_set() and not client.is_alive())
    await until(lambda: len(shell.driver.scheduler.ready[1]) == 1)  # type: ignore[index]
    assert await shell.states() == {run_id(0): "READY"}


def cancelling(target: str, others: set[int], called: threading.Event, cancelled: threading.Event) -> None:
    """A client that cancels its call while the server is at it, in a thread of its own."""
    with grpc.insecure_channel(target) as channel:
        call = ResourceManagerServiceStub(channel).DequeueGangs.future(DEQUEUE, metadata=AS_ENGINE)
        assert called.wait(PATIENCE_SECONDS)
        call.cancel()
        channel.close()
        end = time.monotonic() + PATIENCE_SECONDS
        while connections_of(target) - others:  # gRPC's own threads see it, the event loop does not
            assert time.monotonic() < end
            time.sleep(0.01)
    cancelled.set()


def connections_of(target: str) -> set[int]:
    """Return the ports of who has a connection with a server of this process that it has not closed."""
    port = int(target.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return {each.raddr.port for each in found if each.laddr.port == port and each.raddr}


async def test_delivered_work_stays_handed_out(shell: Shell, stub: Any) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))
    answer = await stub.DequeueGangs(DEQUEUE, metadata=AS_ENGINE)
    assert len(answer.gangs) == 1
    await stub.SetPlacements(pb.SetPlacementsRequest(), metadata=AS_ENGINE)
    assert await shell.states() == {run_id(0): "PLACING"}


async def test_gangs_whose_answer_was_lost_are_handed_out_by_the_next_call(shell: Shell, stub: Any) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(0))

    async def taken(call: int, received: int) -> list[str]:
        request = pb.DequeueGangsRequest(limit=10, type=resmgr_pb2.BATCH, call=call, received=received)
        answer = await stub.DequeueGangs(request, metadata=AS_ENGINE)
        return [task.taskId.value for gang in answer.gangs for task in gang.tasks]

    assert await taken(1, 0) == [run_id(0)]
    assert await taken(2, 0) == [run_id(0)], "the answer to the first call did not arrive"
    assert await taken(3, 2) == [], "that to the second did"
    assert await shell.states() == {run_id(0): "PLACING"}


def test_gangs_return_that_a_call_got_whose_answer_has_not_arrived() -> None:
    world = World()
    scheduler = world.scheduler
    for instance in range(3):
        world.enqueue(instance)
    world.admit()

    def call(number: int, received: int, limit: int = 10) -> list[int]:
        scheduler.note_call(TaskType.BATCH, world.engine, number, received, world.now)
        gangs = scheduler.dequeue(TaskType.BATCH, limit, world.engine, world.now, number)
        return [task.instance for gang in gangs for task in gang.tasks]

    assert call(1, 0, limit=1) == [0]
    assert call(2, 1, limit=1) == [1], "the first has arrived"
    assert call(2, 1) == [], "a repetition gets nothing"
    assert call(3, 1) == [1, 2], "the second was lost"
    world.place(1)
    assert call(2, 1) == [], "nor does a late one"
    assert call(4, 3) == []
    assert [world.state(i).name for i in range(3)] == ["PLACING", "PLACED", "PLACING"]


def test_calls_for_another_type_are_numbered_apart() -> None:
    world = World()
    scheduler, engine = world.scheduler, world.engine
    world.enqueue(0)
    world.admit()
    scheduler.note_call(TaskType.BATCH, engine, 1, 0, world.now)
    assert len(scheduler.dequeue(TaskType.BATCH, 1, engine, world.now, 1)) == 1
    assert scheduler.note_call(TaskType.STATELESS, engine, 1, 0, world.now) == 0
    assert scheduler.note_call(TaskType.STATELESS, engine, 2, 0, world.now) == 0
    assert world.state(0) is TaskState.PLACING
    assert scheduler.note_call(TaskType.BATCH, engine, 2, 0, world.now) == 1
    assert world.state(0) is TaskState.READY


def test_a_call_that_waited_gets_nothing_once_a_later_one_was_made() -> None:
    world = World()
    scheduler, engine = world.scheduler, world.engine
    scheduler.note_call(TaskType.BATCH, engine, 1, 0, world.now)
    scheduler.note_call(TaskType.BATCH, engine, 2, 0, world.now)
    world.enqueue(0)
    world.admit()
    assert scheduler.dequeue(TaskType.BATCH, 1, engine, world.now, 1) == []
    assert len(scheduler.dequeue(TaskType.BATCH, 1, engine, world.now, 2)) == 1


def test_gangs_go_back_to_the_head_of_their_queue() -> None:
    world = World()
    for instance in range(4):
        world.enqueue(instance)
    world.admit()
    gangs = world.dequeue(limit=3)
    world.place(1)
    assert world.scheduler.take_back_gangs(gangs, world.engine, world.now) == 2
    assert [world.state(i).name for i in range(4)] == ["READY", "PLACED", "READY", "READY"]
    assert not world.scheduler.deadlines.next(), "nothing is placing any more"
    again = world.dequeue()
    assert [task.instance for gang in again for task in gang.tasks] == [0, 2, 3]
    assert all(gang.attempts.tries == 0 for gang in again)


def test_gangs_that_another_engine_has_now_stay_with_it() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    gangs = world.dequeue()
    world.scheduler.expire_leases(world.now + 60)
    other = world.scheduler.leases.touch("placement/two", world.now)
    world.scheduler.dequeue(gangs[0].type, 1, other, world.now)
    assert world.scheduler.take_back_gangs(gangs, world.engine, world.now) == 0
    assert world.task(0).holder is other


def test_placements_go_back_with_their_ports_and_without_what_moved_on() -> None:
    world = World()
    for instance in range(3):
        world.enqueue(instance, of=needs(ports=instance))
    world.admit()
    world.dequeue()
    world.place(0, 1, 2, ports=[31000, 31001, 31002])
    given = world.scheduler.hand_over(10, world.jobmgr, world.now)
    world.observe(0, TaskState.RUNNING)
    assert world.scheduler.take_back_placements(given, world.jobmgr, world.now) == 1
    assert [world.state(i).name for i in range(3)] == ["RUNNING", "PLACED", "PLACED"]
    assert world.task(1).holder is None
    assert world.scheduler.deadlines.next() is None
    [again] = world.scheduler.hand_over(10, world.jobmgr, world.now)
    assert (again.host, [run.instance for run in again.runs], again.ports) == (
        "h1",
        [1, 2],
        (31000, 31001, 31002),
    )
    jobmgr = world.scheduler.leases.touch(JOBMGR, world.now)
    world.scheduler.kill(*world.task(1).key[:2])
    world.observe(2, TaskState.LOST)
    assert world.scheduler.take_back_placements([again], jobmgr, world.now) == 0
    assert not world.scheduler.placements
    assert world.scheduler.placements.abandoned == [again]


def test_a_placement_that_was_taken_twice_is_abandoned_once() -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.place(0)
    given = world.scheduler.hand_over(10, world.jobmgr, world.now)
    world.scheduler.take_back_placements(given, world.jobmgr, world.now)
    world.hand_over()
    world.scheduler.expire_leases(world.now + 60)
    assert [each.offer_id for each in world.scheduler.placements.abandoned] == ["offer-h1"]


async def test_a_waiting_leader_gets_nothing_once_its_successor_has_called(shell: Shell) -> None:
    """Its call outlives its term where it stands still."""
    pool, request = await shell.pool(), pb.GetPlacementsRequest(limit=10, timeout=20_000)
    waiting = asyncio.create_task(shell.tasks.GetPlacements(request, Context("jobmgr/one", "jobmgr:5")))
    await asyncio.sleep(0)
    shell.jobmgr = Context("jobmgr/two", "jobmgr:6")
    await shell.enqueue(pool, wire_gang(0))
    await shell.place(*await shell.dequeue())
    with pytest.raises(Fenced, match="term 5 of jobmgr/one is over"):
        await waiting
    assert len(await shell.hand_over()) == 1

"""The calls about single tasks, in every state that a task may be in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument, NotFound
from peloton.model.states import TaskState
from peloton.private.eventstream import eventstream_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from resmgr.core.state.task_states import STATES, Event
from tests.unit.resmgr.shell import CLIENT, JOBMGR, Shell, run_id, wire_gang
from tests.unit.resmgr.world import JOB

WAITING = ("PENDING", "READY", "PLACING", "RESERVED", "PLACED", "LAUNCHING")
ON_HOST = ("LAUNCHED", "STARTING", "RUNNING", "KILLING", "PREEMPTING")
AHEAD = 99
"""An instance that keeps the pool full."""


async def bring(shell: Shell, state: str) -> str:
    """A gang of one task of 10 cores to that state; the pool's id."""
    pool = await shell.pool()
    if state == "PENDING":
        await shell.enqueue(pool, wire_gang(AHEAD, cpu=95))
    await shell.enqueue(pool, wire_gang(0, cpu=10))
    if state in ("PENDING", "READY"):
        return pool
    [gang] = await shell.dequeue()
    task = shell.driver.scheduler.registry.current(JOB, 0)
    assert task is not None
    if state == "RESERVED":
        shell.driver.scheduler.lifecycle.step(task, Event.RESERVE, shell.driver.now())
    if state in ("PLACING", "RESERVED"):
        return pool
    await shell.place(gang)
    if state == "PLACED":
        return pool
    await shell.hand_over()
    if state in ON_HOST:
        await report(shell, "RUNNING" if state == "PREEMPTING" else state)
    if state == "PREEMPTING":
        shell.driver.scheduler.lifecycle.step(task, Event.PREEMPT, shell.driver.now())
    return pool


async def report(shell: Shell, state: str, run: int = 1) -> None:
    """By UpdateTasksState."""
    request = pb.UpdateTasksStateRequest()
    request.taskStates.add(
        mesosTaskId=mesos_pb2.TaskID(value=run_id(0, run)), state=task_pb2.TaskState.Value(state)
    )
    await shell.tasks.UpdateTasksState(request, JOBMGR)


async def notify(shell: Shell, *states: mesos_pb2.TaskState.ValueType) -> int:
    """By NotifyTaskUpdates; the offset that is answered."""
    request = pb.NotifyTaskUpdatesRequest()
    for offset, state in enumerate(states, 5):
        event = request.events.add(offset=offset, type=eventstream_pb2.Event.MESOS_TASK_STATUS)
        event.mesosTaskStatus.task_id.value = run_id(0)
        event.mesosTaskStatus.state = state
    return (await shell.tasks.NotifyTaskUpdates(request, CLIENT)).purgeOffset


async def state_of(shell: Shell) -> str | None:
    return (await shell.states()).get(run_id(0))


def idle(shell: Shell) -> bool:
    """Whether nothing is left of the task, in no queue, lease, deadline or sum."""
    scheduler = shell.driver.scheduler
    [pool] = scheduler.tree.leaves()
    return not (
        pool.tasks
        or len(scheduler.pending.of(pool))
        or any(pool.used)
        or any(pool.demand)
        or scheduler.placements
        or len(scheduler.leases)
        or len(scheduler.deadlines)
        or any(scheduler.ready.values())
        or scheduler.registry.orphans
    )


async def kill(shell: Shell, *instances: int) -> pb.KillTasksResponse:
    tasks = [peloton_pb2.TaskID(value=f"{JOB}-{instance}") for instance in instances]
    return await shell.tasks.KillTasks(pb.KillTasksRequest(tasks=tasks), JOBMGR)


@pytest.mark.parametrize("state", WAITING)
async def test_a_task_that_waits_is_killed_and_leaves_nothing(shell: Shell, state: str) -> None:
    await bring(shell, state)
    assert await state_of(shell) == state
    assert not (await kill(shell, 0)).error
    assert await state_of(shell) is None
    if state == "PENDING":
        assert not (await kill(shell, AHEAD)).error
    assert idle(shell)
    [error] = (await kill(shell, 0)).error
    assert error.HasField("notFound"), "it is forgotten"


@pytest.mark.parametrize("state", ON_HOST)
async def test_a_task_on_a_host_is_not_killed_here_and_its_state_named(shell: Shell, state: str) -> None:
    await bring(shell, state)
    [error] = (await kill(shell, 0)).error
    assert error.killError.message == f"task {JOB}-0 is {state}: it is launched already"
    assert await state_of(shell) == state


@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED", "KILLED", "LOST"])
@pytest.mark.parametrize("state", WAITING + ON_HOST)
async def test_an_end_frees_everything_whatever_the_state(shell: Shell, state: str, end: str) -> None:
    await bring(shell, state)
    await report(shell, end)
    if state == "PENDING":
        await kill(shell, AHEAD)
    assert idle(shell)


@pytest.mark.parametrize("state", [*WAITING, "INITIALIZED", "UNKNOWN", "PREEMPTING", "DELETED"])
async def test_states_that_only_this_side_knows_change_nothing_but_the_end(shell: Shell, state: str) -> None:
    await bring(shell, "LAUNCHED")
    await report(shell, state)
    assert await state_of(shell) == (None if state == "DELETED" else "LAUNCHED")


@pytest.mark.parametrize("state", WAITING + ON_HOST)
async def test_a_status_that_is_pushed_counts_in_every_state(shell: Shell, state: str) -> None:
    await bring(shell, state)
    assert await notify(shell, mesos_pb2.TASK_STAGING, mesos_pb2.TASK_RUNNING) == 6
    expected = state if state in ("KILLING", "PREEMPTING") else "RUNNING"
    assert await state_of(shell) == expected
    await notify(shell, mesos_pb2.TASK_GONE)
    if state == "PENDING":
        await kill(shell, AHEAD)
    assert idle(shell)


async def test_no_events_are_no_error(shell: Shell) -> None:
    assert await notify(shell) == 0


async def test_an_id_that_is_none_refuses_the_whole_call(shell: Shell) -> None:
    await bring(shell, "LAUNCHED")
    request = pb.UpdateTasksStateRequest()
    for run in (run_id(0), "nonsense"):
        request.taskStates.add(mesosTaskId=mesos_pb2.TaskID(value=run), state=task_pb2.RUNNING)
    with pytest.raises(InvalidArgument, match="nonsense"):
        await shell.tasks.UpdateTasksState(request, JOBMGR)
    assert await state_of(shell) == "LAUNCHED"


@pytest.mark.parametrize("call", [lambda shell: report(shell, "LOST"), lambda shell: notify(shell)])
async def test_statuses_are_applied_once_all_runs_are_known(
    shell: Shell, call: Callable[[Shell], Awaitable[object]]
) -> None:
    shell.driver.recovered.clear()
    waiting = asyncio.ensure_future(call(shell))
    await asyncio.sleep(0)
    assert not waiting.done()
    shell.driver.recovered.set()
    await asyncio.wait_for(waiting, 60)


async def on_host(shell: Shell, host: str = "h1") -> list[str]:
    answer = await shell.tasks.GetTasksByHosts(pb.GetTasksByHostsRequest(hostnames=[host]), CLIENT)
    return [task.taskId.value for task in answer.hostTasksMap[host].tasks]


@pytest.mark.parametrize("state", WAITING + ON_HOST)
async def test_a_host_has_what_is_placed_or_runs_there(shell: Shell, state: str) -> None:
    await bring(shell, state)
    there = state in ("PLACED", "LAUNCHING", *ON_HOST)
    assert await on_host(shell) == ([run_id(0)] if there else [])
    await report(shell, "LOST")
    assert await on_host(shell) == []


async def orphans(shell: Shell, pool: str = "") -> list[tuple[str, str]]:
    answer = await shell.tasks.GetOrphanTasks(pb.GetOrphanTasksRequest(respoolID=pool), CLIENT)
    return [(task.taskId.value, task.hostname) for task in answer.orphanTasks]


@pytest.mark.parametrize("state", WAITING + ON_HOST)
async def test_a_newer_run_leaves_an_orphan_of_what_may_live(shell: Shell, state: str) -> None:
    pool = await bring(shell, state)
    await shell.enqueue(pool, wire_gang(0, run=2, cpu=1))
    may_live = state in ("LAUNCHING", *ON_HOST)
    expected = [(run_id(0), "h1")] if may_live else []
    assert await orphans(shell) == await orphans(shell, pool) == expected
    held = (await shell.usage(pool))["cpu"] - (95 if state == "PENDING" else 0)
    assert held == (11 if may_live else 1), "the orphan holds its allocation until it ends"
    await report(shell, "KILLED")
    assert await orphans(shell) == []
    assert set(await shell.states()) - {run_id(AHEAD)} == {run_id(0, 2)}


async def test_orphans_of_an_unknown_pool_are_not_found(shell: Shell) -> None:
    with pytest.raises(NotFound):
        await orphans(shell, "nobody")


def test_the_states_here_are_all_there_are() -> None:
    known = {state.name for state, _ in STATES.table}
    assert known == {*WAITING, *ON_HOST}
    assert {TaskState[name] for name in known} == {state for state, _ in STATES.table}

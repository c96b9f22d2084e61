"""Ends that the master reports first, and the agent later, with the exit code."""

from __future__ import annotations

from collections.abc import Sequence

from pytest import approx

from jobmgr.core.state import events as ev
from jobmgr.engine.engine import Engine
from jobmgr.engine.recovery import recover
from mesos.v1 import mesos_pb2
from peloton.model.ids import Run, mesos_task_id
from peloton.model.states import TaskState, TerminationReason
from peloton.model.task import PodEvent, TaskStatus, Termination
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import begin_term, ended, reach
from tests.unit.jobmgr_core.test_deadlines import SECOND, Time
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState
START = 1_700_001_000 * SECOND
REREGISTERED = "Unknown agent reregistered"
EXITED = "Command exited with status 3"
RUN = f"{JOB}-0-1"


def status(
    state: TaskState, seconds: int, message: str = "", agent: bool = True, run: int = 1
) -> ev.Statuses:
    reported = TaskStatus(
        mesos_task_id(JOB, 0, run),
        state,
        START + seconds * SECOND,
        message=message,
        reason="" if agent else "AGENT_REREGISTERED",
        uuid=b"u" if agent else b"",
    )
    return ev.Statuses([(Run(JOB, 0, run), reported)])


def running(max_failures: int = 0) -> Time:
    """The first of two tasks runs since START + 1."""
    time = Time(spec(2, max_failures=max_failures))
    time.launch()
    time.run_cycle(status(S.RUNNING, 1))
    return time


def history(time: Time, *events: ev.Statuses) -> Sequence[PodEvent]:
    """Run one cycle; return what it adds to the history."""
    cycle = time.core.run_cycle(events, ev.Now(START + 1000 * SECOND, time.now))
    time.core.commit(cycle)
    return cycle.changes[JOB].events if JOB in cycle.changes else ()


def test_the_update_of_the_agent_corrects_code_message_and_times() -> None:
    time = running()
    (first,) = history(time, status(S.FAILED, 11, REREGISTERED, agent=False))
    assert time.task().termination == Termination(TerminationReason.FAILED)
    (second,) = history(time, status(S.FAILED, 3, EXITED))
    task = time.task()
    assert (task.state, task.message, task.reason) == (S.FAILED, EXITED, "")
    assert task.termination == Termination(TerminationReason.FAILED, exit_code=3)
    assert (task.start_time, task.completion_time) == (START + SECOND, START + 3 * SECOND)
    assert task.resource_usage["cpu"] == approx(2.0)
    assert time.core.active.jobs[JOB].job.runtime.resource_usage["cpu"] == approx(2.0)
    assert (second.state, second.message, second.timestamp) == (S.FAILED, EXITED, first.timestamp)


def test_a_repeated_update_changes_nothing() -> None:
    time = running()
    history(time, status(S.FAILED, 11, REREGISTERED, agent=False), status(S.FAILED, 3, EXITED))
    once = time.task()
    assert history(time, status(S.FAILED, 3, EXITED), status(S.FAILED, 12, "the master", agent=False)) == []
    assert time.task() == once


def test_both_updates_in_one_cycle_are_one_event() -> None:
    time = running()
    (event,) = history(time, status(S.FAILED, 11, REREGISTERED, agent=False), status(S.FAILED, 3, EXITED))
    assert (event.message, event.reason) == (EXITED, "")


def test_an_update_with_another_end_changes_nothing() -> None:
    time = running()
    history(time, status(S.FAILED, 11, REREGISTERED, agent=False))
    before = time.task()
    history(time, status(S.SUCCEEDED, 3, "Command exited with status 0"))
    history(time, status(S.LOST, 3))
    assert time.task() == before


def test_the_start_of_a_run_is_corrected() -> None:
    """There was no status before its end: the agent reports start and end, in order."""
    time = Time(spec(2))
    time.launch()
    history(time, status(S.SUCCEEDED, 11, REREGISTERED, agent=False))
    assert time.task().start_time == 0
    history(time, status(S.RUNNING, 1))
    history(time, status(S.SUCCEEDED, 3, "Command exited with status 0"))
    task = time.task()
    assert (task.start_time, task.completion_time) == (START + SECOND, START + 3 * SECOND)
    assert task.resource_usage["cpu"] == approx(2.0)


def test_the_reason_of_a_kill_is_kept() -> None:
    time = running()
    time.run_cycle(ev.StopRequested(JOB, [0]))
    history(time, status(S.KILLED, 11, REREGISTERED, agent=False))
    history(time, status(S.KILLED, 3, "Command terminated with signal Killed"))
    assert time.task().termination == Termination(TerminationReason.KILLED_ON_REQUEST, 0, "Killed")


def test_the_history_of_a_run_before_the_current_one_is_corrected() -> None:
    time = running(max_failures=2)
    history(time, status(S.FAILED, 11, REREGISTERED, agent=False))
    (event,) = history(time, status(S.FAILED, 3, EXITED))
    assert (event.run, event.state, event.message, event.reason) == (1, S.FAILED, EXITED, "")
    task = time.task()
    assert (task.run, task.state, task.message) == (2, S.INITIALIZED, f"run 1 FAILED: {EXITED}")
    assert history(time, status(S.FAILED, 3, EXITED)) == []


async def fail(world: World, engine: Engine) -> None:
    """The only task runs, and the master says that it failed."""
    await engine.create_job(JOB, spec(1))
    await reach(engine, S.RUNNING, 1)
    reason = mesos_pb2.TaskStatus.REASON_AGENT_REREGISTERED
    world.status(RUN, mesos_pb2.TASK_FAILED, REREGISTERED, reason, timestamp=1_700_000_010.0)
    await ended(engine)


async def exit_code(store: Store) -> int:
    termination = (await store.tasks.get(JOB, 0)).termination
    assert termination is not None
    return termination.exit_code


async def test_the_exit_code_of_a_finished_job_is_corrected(store: Store) -> None:
    world = World(runs_on)
    engine = Engine(store)
    async with Running(engine, world):
        await fail(world, engine)
        world.status(RUN, mesos_pb2.TASK_FAILED, EXITED, uuid=b"u", timestamp=1_700_000_004.0)
        await until(lambda: world.purged == len(world.events), "all is passed")
        assert await exit_code(store) == 3
        loaded = await engine.load(JOB)
        assert loaded.tasks[0] == await store.tasks.get(JOB, 0)
        assert loaded.runtime == await store.jobs.runtime(JOB)
        assert loaded.runtime.resource_usage["cpu"] == approx(4.0)
        (failed,) = [each for each in await store.pod_events.list(JOB, 0) if each.state is S.FAILED]
        assert failed.message == EXITED


async def test_a_new_leader_corrects_a_job_that_finished_before(store: Store) -> None:
    world = World(runs_on)
    async with Running(Engine(store), world) as running:
        await fail(world, running.engine)
        await until(lambda: world.purged == len(world.events), "all is passed")
    engine = Engine(store)
    await begin_term(store)
    await recover(store, engine.lanes)
    async with Running(engine, world):
        world.status(RUN, mesos_pb2.TASK_FAILED, EXITED, uuid=b"u")
        await until(lambda: world.purged == len(world.events), "all is passed")
        assert await exit_code(store) == 3


async def test_late_updates_of_a_deleted_job_are_not_stored(store: Store) -> None:
    world = World(runs_on)
    engine = Engine(store)
    async with Running(engine, world):
        await fail(world, engine)
        await engine.delete(JOB)
        world.status(RUN, mesos_pb2.TASK_FAILED, EXITED, uuid=b"u")
        await until(lambda: world.purged == len(world.events), "all is passed")
        assert [page async for page in store.tasks.list(JOB)] == []

"""What a new leader of many tasks does before it has read them all, and what it does not do again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping

import pytest
from prometheus_client import REGISTRY

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.instructions import Compare, Enqueue
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from mesos.v1 import mesos_pb2
from peloton.errors import RemoteFailure, Unavailable
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec, stored_job
from tests.unit.jobmgr_core.steps import ended, next_leader, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

S = TaskState
OTHER = "0f3f5c2a-0000-4000-8000-000000000002"


class Slow:
    """The tasks of a store, of which those of one job cannot be read before `go` is set."""

    def __init__(self, store: Store, job_id: str = JOB) -> None:
        self._tasks = store.tasks
        self._job_id = job_id
        self.go = asyncio.Event()
        self.failures: list[Exception] = []

    async def list(
        self, job_id: str, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Mapping[int, TaskRuntime]]:
        if job_id == self._job_id:
            await self.go.wait()
            if self.failures:
                raise self.failures.pop()
        async for page in self._tasks.list(job_id, first, end):
            yield page

    def __getattr__(self, name: str) -> object:
        return getattr(self._tasks, name)


async def left(store: Store, world: World, instances: int = 3) -> None:
    """Run a leader until the tasks of its job run, or wait where the world holds them."""
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(instances))
        await reach(running.engine, S.PENDING if world.hold else S.RUNNING, instances)
    world.calls.clear()


def settled() -> bool:
    return REGISTRY.get_sample_value("jobmgr_recovery_settled") == 1


async def test_other_jobs_are_served_while_a_large_one_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(runs_on)
    await left(store, world)
    slow = Slow(store)
    monkeypatch.setattr(store, "tasks", slow)
    engine = await next_leader(store)
    async with Running(engine, world):
        await engine.create_job(OTHER, spec(2))
        assert await engine.stop(OTHER, None) in ([], [0, 1])
        await ended(engine, OTHER)
        assert (await engine.summary(JOB)).runtime.task_counts == {S.RUNNING: 3}
        assert engine.active_jobs() == [JOB]
        assert engine.job(JOB) is None
        assert not settled()
        slow.go.set()
        assert await engine.stop(JOB, None) == [0, 1, 2]
        await ended(engine)
    assert not world.alive


async def test_a_requested_job_is_read_before_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [f"0f3f5c2a-0000-4000-8000-{number:012}" for number in range(30)]
    for job in jobs:
        await Engine(store).create_job(job, spec(1))
    slow = [Slow(store, job) for job in jobs[:-1]]
    tasks = store.tasks

    class Chosen:
        def list(self, job_id: str) -> AsyncIterator[Mapping[int, TaskRuntime]]:
            found = next((each for each in slow if each._job_id == job_id), None)
            return (found or tasks).list(job_id)

    monkeypatch.setattr(store, "tasks", Chosen())
    engine = await next_leader(store)
    reading = asyncio.create_task(engine.recovery.read_all())
    async with asyncio.timeout(60):
        found = await engine.find(jobs[-1])
    assert found is not None
    assert engine.lanes.unread.keys() == set(jobs[:-1])
    reading.cancel()


async def test_statuses_and_placements_wait_until_all_jobs_are_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A status of a run of a job that is not known yet would have it killed."""
    world = World(runs_on)
    await left(store, world)
    slow = Slow(store)
    monkeypatch.setattr(store, "tasks", slow)
    for run in list(world.alive):
        world.status(run, mesos_pb2.TASK_RUNNING)
    engine = await next_leader(store)
    async with Running(engine, world):
        await engine.create_job(OTHER, spec(1))
        await until(lambda: world.called("EnqueueGangs"), "another job is enqueued")
        assert not world.called("WaitForEvents")
        assert not world.called("GetPlacements")
        assert not world.called("WaitForDeltas")
        slow.go.set()
        await until(lambda: world.called("GetPlacements"), "placements are requested")
        await until(lambda: world.purged == len(world.events), "all statuses are taken")
        await until(settled, "it has settled")
        await until(lambda: len(world.alive) == 4, "all run")
    assert not world.called("KillTasks")


async def test_reading_goes_on_when_the_store_answers_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.hold = True
    await left(store, world)
    slow = Slow(store)
    slow.failures = [Unavailable("the store does not answer")]
    slow.go.set()
    monkeypatch.setattr(store, "tasks", slow)
    engine = await next_leader(store)
    async with Running(engine, world):
        await until(lambda: engine.job(JOB), "the job is read")


async def test_runs_that_resmgr_holds_are_not_enqueued_again(store: Store) -> None:
    world = World()
    world.hold = True
    await left(store, world, 6)
    world.resmgr_stream = ""  # its name would cause a second comparison, before or after the first one ends
    compared = REGISTRY.get_sample_value("jobmgr_compared_runs_total") or 0.0
    gone = [world.queued.pop(f"{JOB}-{instance}") for instance in (1, 4)]
    engine = await next_leader(store)
    async with Running(engine, world):
        await until(lambda: len(world.queued) == 6, "what was missing is enqueued")
        await until(settled, "it has settled")
    sent = [task for request in world.called("EnqueueGangs") for gang in request.gangs for task in gang.tasks]
    assert [task.taskId.value for task in sent] == [task.taskId.value for task in gone]
    assert REGISTRY.get_sample_value("jobmgr_compared_runs_total") == compared + 6


async def test_runs_are_compared_with_the_first_resmgr_that_gives_its_name(store: Store) -> None:
    """Its predecessor may have taken them after it had read the store."""
    world = World()
    world.hold = True
    world.resmgr_stream = ""  # no reasons come, and no name of a leader
    async with Running(Engine(store), world) as running:
        await running.engine.create_job(JOB, spec(2))
        await reach(running.engine, S.PENDING, 2)
        assert not world.called("FindMissing")
        world.queued.clear()
        world.resmgr_stream = "resmgr-1"
        await until(lambda: len(world.queued) == 2, "they are enqueued again")


async def test_a_new_stream_of_the_same_resmgr_causes_no_comparison(store: Store) -> None:
    """A client that is too far behind gets a new stream."""
    world = World()
    world.hold = True
    async with Running(Engine(store), world) as running:
        await until(lambda: len(_streams(world)) > 1, "resmgr is known before the job")
        await running.engine.create_job(JOB, spec(2))
        await reach(running.engine, S.PENDING, 2)
        world.resmgr_stream = "resmgr-1'"
        await until(lambda: _streams(world)[-1] == "resmgr-1'", "the new stream is read")
        await running.engine.lanes.flush()
        assert not world.called("FindMissing")
        assert len(world.called("EnqueueGangs")) == 1


async def test_all_runs_are_enqueued_where_resmgr_cannot_compare(store: Store) -> None:
    """One of an older version."""
    world = World()
    world.hold = True
    await left(store, world, 4)
    world.failures["FindMissing"] = deque([RemoteFailure("FindMissing: UNIMPLEMENTED")])
    engine = await next_leader(store)
    async with Running(engine, world):
        await until(lambda: world.called("EnqueueGangs"), "they are enqueued again")
        await until(settled, "it has settled")
    sent = [task for request in world.called("EnqueueGangs") for gang in request.gangs for task in gang.tasks]
    assert len(sent) == 4


class Leader:
    """A core whose cycles are stored at once."""

    def __init__(self, made: JobSpec, rows: dict[int, TaskRuntime], share: int) -> None:
        self.core = Core(Limits(rows_per_cycle=share))
        runtime = JobRuntime(JobState.PENDING, JobState.SUCCEEDED, 1, 1)
        self.core.active.recover(stored_job(runtime, rows, made))
        self.at = 0

    def run_cycle(self, *events: ev.Event) -> Cycle:
        self.at += 1
        cycle = self.core.run_cycle(events, ev.Now(1_700_000_000_000_000_000 + self.at, float(self.at)))
        self.core.commit(cycle)
        return cycle


def row(state: TaskState, run: int = 1) -> TaskRuntime:
    return TaskRuntime(state, S.SUCCEEDED, run, 1, 1, run)


def _streams(world: World) -> list[str]:
    return [request.stream_id for request in world.called("WaitForDeltas")]


def compared(cycle: Cycle) -> list[ev.Span]:
    return [span for each in cycle.instructions if isinstance(each, Compare) for span in each.spans]


def test_a_cycle_compares_at_most_its_share_in_spans() -> None:
    waits, second = row(S.PENDING), row(S.PENDING, 2)
    rows = dict.fromkeys(range(20), waits)
    rows |= {3: row(S.RUNNING), 4: second, 5: second, 12: row(S.INITIALIZED)}
    leader = Leader(spec(20), rows, share=8)
    spans = [compared(leader.run_cycle()) for _ in range(3)]
    assert spans == [[(0, 3, 1), (4, 6, 2), (6, 8, 1)], [(8, 12, 1), (13, 16, 1)], [(16, 20, 1)]]
    assert not leader.core.active.settled
    for _ in range(3):
        leader.run_cycle(ev.Compared(JOB, []))
    assert leader.core.active.settled


def test_a_run_that_was_stopped_meanwhile_is_not_enqueued_again() -> None:
    leader = Leader(spec(3), dict.fromkeys(range(3), row(S.PENDING)), share=100)
    assert compared(leader.run_cycle()) == [(0, 3, 1)]
    leader.run_cycle(ev.StopRequested(JOB, [1]))
    cycle = leader.run_cycle(ev.Compared(JOB, [(0, 1), (1, 1), (2, 7)]))
    [sent] = [each for each in cycle.instructions if isinstance(each, Enqueue)]
    assert sent == Enqueue(JOB, (((0, 1),),), again=True)


def test_a_new_resmgr_causes_a_comparison_in_shares() -> None:
    leader = Leader(spec(4), {**dict.fromkeys(range(3), row(S.PENDING)), 3: row(S.RUNNING)}, share=2)
    leader.run_cycle()
    leader.run_cycle()
    leader.run_cycle(ev.Compared(JOB, []), ev.Compared(JOB, []))
    assert leader.core.active.settled
    assert compared(leader.run_cycle(ev.ResmgrChanged())) == [(0, 2, 1)]
    assert compared(leader.run_cycle()) == [(2, 3, 1)]
    assert compared(leader.run_cycle()) == []


def test_what_the_former_resmgr_may_have_taken_is_compared_with_the_new_one() -> None:
    """Its answer to an enqueue came after the news of its successor."""
    leader = Leader(spec(2), {0: row(S.INITIALIZED), 1: row(S.RUNNING)}, share=10)
    cycle = leader.run_cycle()
    assert [each for each in cycle.instructions if isinstance(each, Enqueue)]
    assert compared(leader.run_cycle(ev.ResmgrChanged())) == []
    assert compared(leader.run_cycle(ev.Enqueued(JOB, [(0, 1)]))) == [(0, 1, 1)]
    assert compared(leader.run_cycle(ev.Compared(JOB, []))) == []
    assert leader.core.active.settled


def test_each_answer_to_a_large_enqueue_that_is_doubted_is_compared_alone() -> None:
    """Not all that waits again for each of them."""
    size, piece = 100_000, 1000
    leader = Leader(spec(size), dict.fromkeys(range(size), row(S.INITIALIZED)), share=size)
    cycle = leader.run_cycle()
    runs = [run for each in cycle.instructions if isinstance(each, Enqueue) for (run,) in each.gangs]
    assert len(runs) == size
    leader.run_cycle(ev.ResmgrChanged())
    asked = [
        span
        for first in range(0, size, piece)
        for span in compared(leader.run_cycle(ev.Enqueued(JOB, runs[first : first + piece])))
    ]
    assert asked == [(first, first + piece, 1) for first in range(0, size, piece)]

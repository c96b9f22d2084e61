"""The loop around the core."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from jobmgr.core.cycle import DUE_PER_CYCLE, Core
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import Event, Now, Statuses
from jobmgr.core.state.limits import Limits
from jobmgr.engine.engine import Engine
from jobmgr.engine.event_weight import weight
from jobmgr.engine.lane import RUNS_BESIDE_CALLS, RUNS_PER_CYCLE, Lane
from jobmgr.engine.lanes import RUNS_PER_EVENT
from jobmgr.engine.outbox import Outbox
from peloton.clock import ManualClock, SystemClock
from peloton.errors import Unavailable
from peloton.model.ids import Run
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskStatus
from peloton.new_calls import MANY_CALLS, MANY_SECONDS, NewCalls
from storage.interface import Store
from tests.interpreted import interpreted
from tests.unit.jobmgr_core.specs import JOB, spec

FAR = 1e9
PATIENCE = 60.0


class PendingReason(Core):
    """A core with a deadline far away."""

    def idle_until(self) -> float | None:
        return FAR


@interpreted
@pytest.mark.parametrize("moments", range(6))
async def test_a_cancelled_loop_ends_even_when_an_event_arrives(store: Store, moments: int) -> None:
    lane = Lane(PendingReason(Limits()), store, SystemClock(), Outbox().send)
    loop = asyncio.create_task(lane.run())
    for _ in range(10):
        await asyncio.sleep(0)
    lane.post(Statuses(()))
    for _ in range(moments):
        await asyncio.sleep(0)
    loop.cancel()
    _, left = await asyncio.wait({loop}, timeout=30)
    loop.cancel()
    assert not left, f"{moments} moments after an event the loop was not cancelled"


class Watched(Core):
    """A core that tells how large its cycles are."""

    def __init__(self) -> None:
        super().__init__(Limits())
        self.sizes: list[int] = []
        """Of events, in runs."""
        self.bounds: list[int | None] = []

    def run_cycle(self, events: Sequence[Event], now: Now, most: int | None = None) -> Cycle:
        """Note the size and the bound."""
        self.sizes.append(sum(map(weight, events)))
        self.bounds.append(most)
        return super().run_cycle(events, now, most)


def ended(first: int, end: int) -> Statuses:
    """Statuses of a job that is not active, which the core answers with."""
    return Statuses(
        [(Run(JOB, at, 1), TaskStatus("", TaskState.FAILED, at, uuid=b"u")) for at in range(first, end)]
    )


@interpreted
@pytest.mark.parametrize(
    ("calls", "size"), [(MANY_CALLS - 1, RUNS_PER_CYCLE), (MANY_CALLS, RUNS_BESIDE_CALLS)]
)
async def test_cycles_are_short_while_many_calls_begin(store: Store, calls: int, size: int) -> None:
    core, clock = Watched(), ManualClock()
    new_calls = NewCalls(clock.monotonic)
    lane = Lane(core, store, clock, Outbox().send, calls=new_calls)
    for _ in range(calls):
        new_calls.note()
    answers = [lane.submit(ended(at, at + 100)) for at in range(0, 4000, 100)]
    running = asyncio.create_task(lane.run())
    await asyncio.wait_for(asyncio.gather(*answers), PATIENCE)
    assert core.sizes == [size] * (4000 // size) + [4000 % size] * bool(4000 % size)
    assert set(core.bounds) == {size}, "deadlines, and tasks that are created, are as few"
    clock.advance(MANY_SECONDS + 0.1)
    del core.sizes[:]
    answers = [lane.submit(ended(at, at + 100)) for at in range(0, 4000, 100)]
    await asyncio.wait_for(asyncio.gather(*answers), PATIENCE)
    assert core.sizes == [RUNS_PER_CYCLE] * 2, "the calls have ended"
    running.cancel()


def test_a_bound_holds_for_tasks_and_deadlines() -> None:
    core = Core(Limits())
    runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1)
    core.create(JOB, spec(10), runtime, None)
    created = []
    for now in range(1, 5):
        cycle = core.run_cycle([], Now(now, float(now)), 4)
        created.append(len(cycle.changes[JOB].tasks) if JOB in cycle.changes else 0)
        core.commit(cycle)
    assert created == [4, 4, 2, 0]
    for instance in range(6):
        core.active.actions.deadlines.set((JOB, instance), 10.0)
    cycle = core.run_cycle([], Now(5, 20.0), 4)
    assert cycle.more, "two deadlines are left"
    core.commit(cycle)
    assert not core.run_cycle([], Now(6, 20.0), DUE_PER_CYCLE * 2).more


@interpreted
async def test_a_large_event_is_answered_as_a_whole(store: Store) -> None:
    """It is handled in pieces, and maybe in several cycles."""
    engine = Engine(store)
    event, size = ended(0, 10 * RUNS_PER_EVENT + 7), 10 * RUNS_PER_EVENT + 7
    [answer] = engine.lanes.submit(event).values()
    running = asyncio.create_task(engine.lanes.run())
    assert len(event.statuses) == size
    assert await asyncio.wait_for(answer, PATIENCE) == list(event.statuses)
    running.cancel()


@interpreted
async def test_a_large_event_fails_where_a_piece_is_not_stored(store: Store) -> None:
    lanes = Engine(store).lanes
    [answer] = lanes.submit(ended(0, 4 * RUNS_PER_EVENT)).values()
    running = asyncio.create_task(lanes.run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(Unavailable, match="no longer leads"):
        await asyncio.wait_for(answer, PATIENCE)


@interpreted
async def test_events_that_are_posted_are_cut(store: Store) -> None:
    core = Watched()
    engine = Engine(store)
    [lane] = engine.lanes._lanes
    lane.core, lane._calls = core, NewCalls()  # not of the process: other tests may have made many calls
    engine.lanes.post(ended(0, RUNS_PER_CYCLE * 2))
    running = asyncio.create_task(engine.lanes.run())
    await asyncio.wait_for(engine.lanes.flush(), PATIENCE)
    assert core.sizes[0] == RUNS_PER_CYCLE
    running.cancel()

"""Lanes: a job whose write cannot be made delays only its lane."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobmgr.core.state.events import (
    Event,
    Launched,
    LaunchRefused,
    LaunchUncertain,
    PendingReasons,
    Placed,
    Placement,
    Preempted,
    ResmgrChanged,
    Statuses,
    Withdrawn,
)
from jobmgr.core.state.instructions import Instruction, Launch, Release, Retire
from jobmgr.drivers.backlog import Backlog
from jobmgr.engine.engine import Engine
from jobmgr.engine.host_launches import HostLaunches
from jobmgr.engine.split import split
from peloton.errors import Fenced, Unavailable
from peloton.model.ids import JobId, Run
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskStatus
from storage.interface import Store
from tests.unit.jobmgr_core.specs import spec
from tests.unit.jobmgr_core.world import Running, World
from tests.waiting import until

LANES = 4
JOBS = [f"0f3f5c2a-0000-4000-8000-{number:012}" for number in range(12)]


class Faulty:
    """A store that cannot write the jobs in `jobs_down`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.jobs_down: set[JobId] = set()
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write_all(self, job_id: JobId, *rest: Any) -> None:
        if job_id in self.jobs_down:
            self.refused += 1
            raise Unavailable("this partition has no quorum")
        await self._store.write_all(job_id, *rest)


def down(engine: Engine, lane: int) -> set[JobId]:
    """Jobs of a lane."""
    return {job for job in JOBS if engine.lanes.lane_of(job) == lane}


async def state(engine: Engine, job: JobId) -> JobState:
    return (await engine.load(job)).runtime.state


async def test_jobs_are_dealt_over_all_lanes_by_their_ids(store: Store) -> None:
    engine = Engine(store, lanes=LANES)
    dealt = [engine.lanes.lane_of(job) for job in JOBS]
    assert set(dealt) == set(range(LANES))
    assert dealt == [Engine(store, lanes=LANES).lanes.lane_of(job) for job in JOBS]
    assert dealt[:4] == [1, 3, 1, 3], "the same in every process"


@pytest.mark.parametrize(("before", "seconds"), [("created", 10.0), ("placed", 5.0), ("running", 3.0)])
async def test_a_lane_that_cannot_store_delays_no_other(store: Store, before: str, seconds: float) -> None:
    """Its jobs share hosts with the others, and its statuses come between theirs."""
    faulty, world = Faulty(store), World()
    world.acknowledges = True
    engine = Engine(faulty, lanes=LANES)
    stuck = down(engine, engine.lanes.lane_of(JOBS[0]))
    loop = asyncio.get_running_loop()
    async with Running(engine, world):
        if before != "created":
            world.hold = True
            if before == "running":
                world.launches.clear()
            for job in JOBS:
                await engine.create_job(job, spec(3))
            await until(lambda: len(world.queued) == 3 * len(JOBS), "all wait in resmgr")
        if before == "running":
            world.hold = False
            await until(lambda: world.called("LaunchTasks"), "tasks are launched")
        faulty.jobs_down, began = stuck, loop.time()
        world.hold = False
        world.launches.set()
        if before == "created":
            for job in JOBS:
                await engine.create_job(job, spec(3))
        rounds = 0
        while loop.time() < began + seconds or rounds < 3:
            later = f"0f3f5c2a-0000-4000-8000-{rounds:08}ffff"
            if engine.lanes.lane_of(later) != engine.lanes.lane_of(JOBS[0]):
                await engine.create_job(later, spec(2))
                await until(partial(_ended, engine, later), f"job {rounds} ends")
                assert await state(engine, later) is JobState.SUCCEEDED
            rounds += 1
        assert faulty.refused, "the store was down"
        assert engine.lanes.problem.startswith(f"lane {engine.lanes.lane_of(JOBS[0])}: cannot store: ")
        for job in set(JOBS) - stuck:
            assert await state(engine, job) is JobState.SUCCEEDED
        for job in stuck:
            assert engine.job(job) is not None
        if before == "running":
            assert world.purged < len(world.events), "what is not stored is not passed"
        faulty.jobs_down = set()
        await until(lambda: not engine.active_jobs(), "all end")
        await until(lambda: world.purged == len(world.events), "all is passed")
    for job in JOBS:
        assert (await engine.load(job)).counts == {TaskState.SUCCEEDED: 3}
    assert not engine.lanes.problem
    assert not world.twice


def _ended(engine: Engine, job: JobId) -> bool:
    return engine.job(job) is None


class Sent:
    """What is launched or given back, and what is handed back to the lanes."""

    def __init__(self, patience: float) -> None:
        self.instructions: list[Instruction] = []
        self.posted: list[Event] = []
        self.launches = HostLaunches(self.instructions.extend, self.posted.append, patience)

    def stored(self, *runs: Run) -> None:
        """A lane has stored its part."""
        part = Launch("host", "agent", "offer", runs) if runs else Release("host", "agent", "offer")
        self.launches.send([part])


A, B, C = (Run(JOBS[number], 0, 1) for number in (0, 1, 4))
SHARED = Placement("host", "agent", "offer", (), (A, B, C))


async def test_a_host_is_launched_once_all_its_lanes_have_stored() -> None:
    sent = Sent(patience=1e6)
    sent.launches.expect(SHARED, 3)
    sent.stored(A)
    sent.stored()
    sent.launches.send([Retire(JOBS[5]), Launch("other", "agent", "offer", (B,))])
    assert sent.instructions == [Retire(JOBS[5]), Launch("other", "agent", "offer", (B,))]
    del sent.instructions[:]
    sent.stored(C)
    assert sent.instructions == [Launch("host", "agent", "offer", (A, C))]
    assert not sent.posted


async def test_a_claim_without_runs_in_any_lane_is_released_once() -> None:
    sent = Sent(patience=1e6)
    sent.launches.expect(SHARED, 2)
    sent.stored()
    sent.stored()
    assert sent.instructions == [Release("host", "agent", "offer")]


async def test_after_the_patience_a_host_is_launched_with_the_stored_runs() -> None:
    sent = Sent(patience=0.01)
    sent.launches.expect(SHARED, 3)
    sent.stored(A)
    await until(lambda: sent.instructions, "it is launched")
    sent.stored(B)
    sent.stored()
    assert sent.instructions == [Launch("host", "agent", "offer", (A,))]
    assert [(type(event), event.runs) for event in sent.posted] == [(LaunchRefused, (B,))]  # type: ignore[union-attr]


async def test_after_the_patience_the_first_stored_part_is_launched() -> None:
    sent = Sent(patience=0.01)
    sent.launches.expect(SHARED, 2)
    await asyncio.sleep(0.05)
    assert not sent.instructions
    sent.stored(B)
    assert sent.instructions == [Launch("host", "agent", "offer", (B,))]
    sent.stored(A)
    assert len(sent.instructions) == len(sent.posted) == 1


runs = st.builds(Run, st.sampled_from(JOBS), st.integers(0, 9), st.integers(1, 3))
some = st.lists(runs, max_size=12)


def lane_of(job_id: JobId) -> int:
    return JOBS.index(job_id) % LANES


@given(some)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_split_keeps_all_events_of_a_lane_in_order(named: list[Run]) -> None:
    status = TaskStatus("", TaskState.RUNNING, 0)
    events: list[Any] = [
        Statuses([(run, status) for run in named]),
        PendingReasons([(run, TaskState.PENDING, "") for run in named]),
        Preempted([(run, "why") for run in named]),
        Launched(named),
        LaunchRefused(named, "no", faulty=True),
        LaunchUncertain(named),
        Placed([Placement("host", "agent", "offer", (), tuple(named))]),
    ]
    for event in events:
        parts: Mapping[int, Any] = split(event, LANES, lane_of, lambda job_id: None)
        for lane in range(LANES):
            mine = [run for run in named if lane_of(run.job_id) == lane]
            assert (_runs(parts[lane]) if lane in parts else []) == mine
        assert {type(part) for part in parts.values()} <= {type(event)}


def _runs(event: Any) -> list[Run]:
    if isinstance(event, Placed):
        return [run for placement in event.placements for run in placement.runs]
    named = next(getattr(event, name) for name in ("statuses", "deltas", "runs") if hasattr(event, name))
    return [each if isinstance(each, Run) else each[0] for each in named]


def test_events_of_a_job_go_to_its_lane_and_a_new_resmgr_to_all() -> None:
    withdrawn = Withdrawn(JOBS[6], [(0, 1)])
    assert split(withdrawn, LANES, lane_of, lambda job_id: None) == {2: withdrawn}
    assert split(ResmgrChanged(), LANES, lane_of, lambda job_id: None).keys() == set(range(LANES))


async def test_a_batch_waits_for_all_lanes_but_those_behind() -> None:
    loop = asyncio.get_running_loop()
    backlog = Backlog(most=10, patience=0.05)
    first = {lane: loop.create_future() for lane in range(2)}
    handing = asyncio.create_task(backlog.add(first, 4))
    await asyncio.sleep(0)
    first[0].set_result(None)
    await handing
    assert backlog.behind
    second: dict[int, asyncio.Future[None]] = {1: loop.create_future()}
    adding = asyncio.create_task(backlog.add(second, 4))
    await asyncio.sleep(0)
    assert adding.done(), "a lane that is behind is not waited for again"
    third: dict[int, asyncio.Future[None]] = {1: loop.create_future()}
    full = asyncio.create_task(backlog.add(third, 4))
    await asyncio.sleep(0.1)  # twice the patience
    assert not full.done(), "no more is taken than the bound allows"
    first[1].set_result(None)
    await asyncio.wait_for(full, 60)
    second[1].set_result(None)
    third[1].set_result(None)
    await asyncio.wait_for(backlog.empty(), 60)
    assert not backlog.behind


async def test_all_lanes_end_where_another_instance_leads(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fenced(job_id: JobId) -> None:
        raise Fenced("term 2 has begun")

    monkeypatch.setattr("jobmgr.engine.lanes.STEP_DOWN_SECONDS", 0.0)
    engine = Engine(store, lanes=LANES, fence=fenced)
    running = asyncio.create_task(engine.lanes.run())
    await engine.create_job(JOBS[0], spec(1))
    with pytest.raises(Fenced, match="term 2"):
        await asyncio.wait_for(running, 60)
    for job in JOBS[:5]:
        with pytest.raises(Unavailable, match="no longer leads"):
            engine.lanes.submit(Withdrawn(job, []))
    assert "term 2 has begun" in engine.lanes.problem

"""Schedules where several instances share the jobs: each time gets one run, whoever owns what by then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobmgr.services.private.sharing import SharingService
from mesos.v1 import mesos_pb2
from peloton.clock import ManualClock
from peloton.errors import Fenced, NotFound
from peloton.model.ids import JobId, parse_mesos_task_id
from peloton.model.schedule import Overlap, ScheduleState, run_id
from peloton.model.shard import SHARDS, shard_of
from peloton.private.jobmgr.sharing import sharing_pb2 as pb
from tests.unit.jobmgr_core.sharing import House, Instance, job_in
from tests.unit.jobmgr_core.steps import FAST
from tests.unit.jobmgr_core.test_schedules import NOON, scheduled
from tests.unit.jobmgr_core.world import runs_on
from tests.waiting import until

HALF = SHARDS // 2
JOBS = [job_in(shard) for shard in range(0, SHARDS, 8)]
CLOCK_NANOSECONDS = NOON * 10**9


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path, runs_on, clock=ManualClock(epoch=CLOCK_NANOSECONDS))
    yield made
    await made.close()


async def two(house: House, keep_runs: int = 0) -> tuple[Instance, Instance]:
    """Two instances with half of the shards each, and schedules at both."""
    one = await house.instance("a")
    await house.settled((one, SHARDS))
    other = await house.instance("b")
    await house.settled((one, HALF), (other, HALF))
    for job in JOBS:
        spec = scheduled(Overlap.QUEUE, keep_runs=keep_runs)
        await house.owner(shard_of(job)).engine.create_job(job, spec)
    return one, other


def to(house: House, second: int) -> None:
    """Go to that many seconds after noon, and let all look at their schedules."""
    assert isinstance(house.clock, ManualClock)
    house.clock.now = float(second)
    for each in house.instances:
        each.engine.schedule_ends.wake()


def run(job: JobId, minute: int) -> JobId:
    return run_id(job, NOON + 60 * minute)


async def state(house: House, job: JobId) -> ScheduleState:
    return (await house.instances[0].store.jobs.runtime(job)).schedule_state


async def kept(house: House, *minutes: int) -> None:
    """Wait until the schedules have these runs, all of which are started."""
    times = tuple(NOON + 60 * minute for minute in minutes)
    states: list[ScheduleState] = []
    async with asyncio.timeout(60):
        while not (states and all(each.kept == times and not each.starting for each in states)):
            await asyncio.sleep(0.02)
            for each in house.instances:
                each.engine.schedule_ends.wake()
            states = [await state(house, job) for job in JOBS]


def launches(house: House, minute: int) -> dict[JobId, list[str]]:
    """Return what was launched of the runs of a minute, by run."""
    found: dict[JobId, list[str]] = {run(job, minute): [] for job in JOBS}
    for each in house.world.launched:
        found.get(parse_mesos_task_id(each).job_id, []).append(each)
    return found


async def end_runs(house: House, minute: int) -> None:
    """End the runs of a minute, each launched once so far.

    Time passes meanwhile: a launch that an owner had stored, and not made when it was lost, is asked about.
    """
    assert isinstance(house.clock, ManualClock)
    async with asyncio.timeout(60):
        while not all(launches(house, minute).values()):
            house.clock.now = min(house.clock.now + FAST.ask_after, 60.0 * minute + 50)
            await asyncio.sleep(0.01)
    for [each] in launches(house, minute).values():
        house.world.status(each, mesos_pb2.TASK_FINISHED)
    await house.ended([run(job, minute) for job in JOBS])


def launched_once(house: House, *minutes: int) -> None:
    assert all(len(each) == 1 for minute in minutes for each in launches(house, minute).values())
    assert len(house.world.launched) == len(JOBS) * len(minutes), "nothing else was launched"
    assert not house.world.twice


async def test_each_time_gets_one_run_whoever_owns_its_shard(house: House) -> None:
    await two(house)
    owners = {(house.owner(shard_of(job)).name, house.owner(shard_of(run(job, 1))).name) for job in JOBS}
    assert {("a", "b"), ("b", "a")} <= owners, "some runs are of others than their schedules"
    for minute in (1, 2):
        to(house, 60 * minute + 1)
        await end_runs(house, minute)
    await kept(house, 1, 2)
    launched_once(house, 1, 2)


async def test_old_runs_are_deleted_whoever_owns_them(house: House) -> None:
    one, _ = await two(house, keep_runs=1)
    for minute in (1, 2, 3):
        to(house, 60 * minute + 1)
        await end_runs(house, minute)
    await kept(house, 3)
    for job in JOBS:
        for minute in (1, 2):
            with pytest.raises(NotFound):
                await one.store.jobs.runtime(run(job, minute))
        await one.store.jobs.runtime(run(job, 3))


def launching(house: House, instance: Instance, minute: int) -> bool:
    """Return whether an instance has asked for the launch of a run of a minute that is not made yet."""
    asked = {task.taskId.value for request in house.world.called("LaunchTasks") for task in request.tasks}
    runs = [run(job, minute) for job in JOBS if instance.shards.holds(run(job, minute))]
    return any(f"{each}-0-1" in asked - set(house.world.launched) for each in runs)


@pytest.mark.parametrize("lose", ["before", "while", "launching"])
async def test_a_takeover_neither_loses_nor_doubles_a_run(house: House, lose: str) -> None:
    """One is gone before a time is due, while its runs are begun, or while a launch is under way.

    The other one begins what is missing.
    """
    one, other = await two(house)
    to(house, 61)
    await end_runs(house, 1)
    await kept(house, 1)
    if lose == "before":
        await other.lose()
        to(house, 121)
    elif lose == "while":
        to(house, 121)
        await until(lambda: any(f"{run(job, 2)}-0-1" in house.world.launched for job in JOBS), "some run")
        await other.lose()
    else:
        house.world.launches.clear()
        to(house, 121)
        await until(lambda: launching(house, other, 2), "a launch is under way")
        await house.kill(other)
        house.world.launches.set()
    await house.settled((one, SHARDS))
    await end_runs(house, 2)
    await kept(house, 1, 2)
    to(house, 181)
    await end_runs(house, 3)
    launched_once(house, 1, 2, 3)


async def test_a_run_that_a_former_owner_asks_for_is_not_begun(house: House) -> None:
    """It may have begun, ended and been deleted while that one stood still."""
    one, other = await two(house)
    job = next(job for job in JOBS if house.owner(shard_of(job)) is other)
    term = other.owner.fence(shard_of(job))
    await other.lose()
    await house.settled((one, SHARDS), (other, 0))
    service = SharingService(one.engine, one.registry.seen, True)
    with pytest.raises(Fenced, match="has another owner since term"):
        await service.StartRun(pb.StartRunRequest(job_id=job, time=NOON + 60, term=term), None)
    with pytest.raises(Fenced):
        await other.engine.elsewhere.start_run(job, NOON + 60)
    with pytest.raises(NotFound):
        await one.store.jobs.runtime(run(job, 1))
    now = one.owner.fence(shard_of(job))
    await service.StartRun(pb.StartRunRequest(job_id=job, time=NOON + 60, term=now), None)
    await one.store.jobs.runtime(run(job, 1))

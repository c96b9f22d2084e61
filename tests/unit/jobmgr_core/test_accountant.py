"""The accountant over a real store: hours are closed, jobs are settled, and another leader goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from jobmgr.core.state.cache import CachedJob
from jobmgr.drivers.accounting import DAY_DAYS, Accountant
from peloton.clock import ManualClock
from peloton.errors import Unavailable
from peloton.model.accounting import DAY_SECONDS, HOUR_SECONDS, MICRO, NOTHING, Amounts, PeriodUsage
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from storage.config import SqliteSettings
from storage.interface import Store
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_core.specs import JOB, POOL, spec

SECOND = 1_000_000_000
DAY = 20_000 * DAY_SECONDS
START = DAY + 22 * HOUR_SECONDS + 1800
"""Half past ten in the evening, in UTC."""


class Jobs:
    """Stands for the lanes: the jobs in memory."""

    def __init__(self) -> None:
        self.jobs: list[CachedJob] = []

    def in_memory(self) -> list[CachedJob]:
        return self.jobs

    def job(self, job_id: str) -> CachedJob | None:
        return next((each for each in self.jobs if each.job_id == job_id), None)


def running(job_id: str = JOB, owner: str = "team", since: int = START) -> CachedJob:
    """A job of one core and 100 MB that runs since a time in seconds."""
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, since * SECOND)
    job = CachedJob(job_id, replace(spec(), owning_team=owner), runtime)
    job.fill({0: TaskRuntime(TaskState.RUNNING, TaskState.SUCCEEDED, 1, 1, 1, 1, start_time=since * SECOND)})
    return job


def end(job: CachedJob, seconds: float, preempted: float = 0.0) -> None:
    """End the job's task after it has held a core for some seconds."""
    usage = {"cpu": seconds, "memory": seconds * 100.0, "cpu_used": seconds / 2, "preempted_cpu": preempted}
    job.put(0, replace(job.tasks[0], state=TaskState.SUCCEEDED, resource_usage=usage))
    job.runtime = replace(job.runtime, resource_usage=usage)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_sqlite(SqliteSettings(path=tmp_path / "p.db"))
    yield opened
    await opened.close()


class Leader:
    """A term of an accountant; `to` lets its clock reach a time, and the loop follow."""

    def __init__(self, store: Store, at: int = START) -> None:
        self.clock = ManualClock(epoch=at * SECOND)
        self.lanes = Jobs()
        self.store = store
        self.accountant = Accountant(store, self.lanes, self.clock, interval=0.05, grace=0.0)  # type: ignore[arg-type]
        self._running: asyncio.Task[object] | None = None

    async def __aenter__(self) -> Leader:
        self._running = asyncio.create_task(self.accountant.run())
        await self.accountant.open_periods()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def to(self, at: int) -> None:
        self.clock.advance(at - self.clock.wall() / SECOND)
        async with asyncio.timeout(60):
            while await self._last() < at // HOUR_SECONDS * HOUR_SECONDS - 3600:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def _last(self) -> int:
        return await self.store.usage.closed(HOUR_SECONDS) or 0


async def hours(store: Store, seconds: int = HOUR_SECONDS) -> list[PeriodUsage]:
    return [each async for page in store.usage.periods(seconds, DAY, DAY + 9 * DAY_SECONDS) for each in page]


def cores(periods: Iterable[PeriodUsage]) -> list[float]:
    return [each.amounts.held_cpu / MICRO for each in periods]


async def test_hours_are_closed_with_their_part_of_a_run_that_lives(store: Store) -> None:
    async with Leader(store) as leader:
        leader.lanes.jobs = [running()]
        await leader.to(DAY + DAY_SECONDS + 1800)
        assert cores(await hours(store)) == [1800, 3600]
        (open_hour,) = await leader.accountant.open_periods()
        assert (open_hour.start, cores([open_hour])) == (DAY + DAY_SECONDS, [1800])
        assert open_hour.group == (POOL, "team", ())
    (day,) = await hours(store, DAY_SECONDS)
    assert (day.start, cores([day]), day.amounts.held_memory) == (DAY, [5400], 540_000 * MICRO)


async def test_another_leader_goes_on_where_one_was_killed(store: Store) -> None:
    async with Leader(store) as first:
        first.lanes.jobs = [running()]
        await first.to(START + 3600)
    async with Leader(store, START + 3600 + 1700) as second:
        second.lanes.jobs = [running()]
        await second.to(DAY + DAY_SECONDS + 10 * HOUR_SECONDS)
    found = cores(await hours(store))
    assert found == [1800, *[3600.0] * 11]
    assert sum(cores(await hours(store, DAY_SECONDS))) == 5400


async def test_a_job_that_ends_is_stored_before_it_is_retired(store: Store) -> None:
    async with Leader(store) as leader:
        job = running()
        leader.accountant.note_creation(JOB)
        end(job, 12.5, preempted=2.5)
        leader.accountant.note_end(job)
        await leader.accountant.settle([JOB])
        row = (await store.usage.last([JOB]))[JOB]
        assert row.before == NOTHING
        assert row.total == Amounts(12_500_000, 0, 1250 * MICRO, 6_250_000, 0, 2_500_000)
        end(job, 14.0)
        leader.accountant.note_correction(JOB, job.spec, job.runtime)
        (period,) = await leader.accountant.open_periods()
        assert period.amounts.held_cpu == 12_500_000  # taken at most every few seconds
        leader.clock.advance(10)
        (period,) = await leader.accountant.open_periods()
        assert period.amounts.held_cpu == 14 * MICRO
    async with Leader(store) as another:
        (period,) = await another.accountant.open_periods()
        assert period.amounts.held_cpu in (12_500_000, 14 * MICRO)


async def test_a_correction_counts_in_the_hour_in_which_it_comes(store: Store) -> None:
    job = running()
    end(job, 100.0)
    async with Leader(store) as leader:
        leader.accountant.note_end(job)
        await leader.accountant.settle([JOB])
        await leader.to(START + HOUR_SECONDS)
        end(job, 90.0)
        leader.accountant.note_correction(JOB, job.spec, job.runtime)
        await leader.to(START + 2 * HOUR_SECONDS)
    assert cores(await hours(store)) == [100.0, -10.0]


async def test_a_settlement_waits_for_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    write = store.usage.write

    async def sometimes(rows: object) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Unavailable("no store")
        await write(rows)  # type: ignore[arg-type]

    async with Leader(store) as leader:
        monkeypatch.setattr(store.usage, "write", sometimes)
        job = running()
        end(job, 1.0)
        leader.accountant.note_end(job)
        async with asyncio.timeout(60):
            await leader.accountant.settle([JOB])
    assert tries == 3 and JOB in await store.usage.last([JOB])


async def test_what_was_used_never_falls_while_samples_are_still_to_come(store: Store) -> None:
    job = running()
    job.runtime = replace(job.runtime, resource_usage={"cpu_used": 50.0})
    async with Leader(store) as first:
        first.lanes.jobs = [job]
        await first.to(START + 2000)
    job.runtime = replace(job.runtime, resource_usage={"cpu_used": 20.0})
    async with Leader(store, START + 2000) as second:
        second.lanes.jobs = [job]
        await second.to(START + 2 * HOUR_SECONDS)
    assert sum(each.amounts.used_cpu for each in await hours(store)) == 50 * MICRO


def test_a_year_is_kept() -> None:
    assert DAY_DAYS >= 366


async def test_what_a_job_used_over_time_is_known_to_the_next_leader(store: Store) -> None:
    first = Leader(store)
    first.accountant.note_creation(JOB)
    first.lanes.jobs = [running()]
    async with first:
        for minutes in (3, 6):
            await first.to(START + 60 * minutes)
            await first.accountant.open_periods()
        await first.accountant.history.write()
    second = Leader(store, START + 900)
    found = await second.accountant.history.read(JOB, START, START + 900, before=False)
    assert [(span.since - START, span.until - START) for span in found] == [(0, 300), (300, 600)]
    assert [span.amounts[0] for span in found] == pytest.approx([1, 1], abs=0.02)
    first.accountant.drop(lambda job_id: job_id == JOB)
    assert not list(first.accountant.courses.points(JOB))

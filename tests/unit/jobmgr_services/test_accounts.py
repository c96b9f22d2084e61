"""ListAccounts and GetJobAccount: what jobs have held and used, by whom and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from jobmgr.core.job_courses import JobCourses, Point
from jobmgr.drivers.job_history import JobHistory
from jobmgr.services.common.account_reads import Span, span_of, with_days
from jobmgr.services.private.usage import UsageService
from peloton.api.v1alpha import peloton_pb2
from peloton.clock import NANOSECONDS, ManualClock
from peloton.errors import InvalidArgument, NotFound
from peloton.identity.principal import EVERYTHING, Kind, Principal, Scope, enter
from peloton.model.accounting import DAY_SECONDS, HOUR_SECONDS, MICRO, Amounts, Group, JobHour, PeriodUsage
from peloton.model.ids import JobId
from peloton.model.pool import pool_paths
from peloton.model.states import TaskState
from peloton.model.usage import BYTES_PER_MB, Reading
from peloton.private.jobmgr.usage import usage_pb2 as pb
from tests.unit.blocks import Blocks
from tests.unit.jobmgr_services.configs import POOLS
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.fakes import task

DAY = 20_000 * DAY_SECONDS
NOW = DAY + 100 * DAY_SECONDS + 5 * HOUR_SECONDS + 100
OPEN = DAY + 100 * DAY_SECONDS + 5 * HOUR_SECONDS
By = pb.ListAccountsRequest


class Hour:
    """The open hour."""

    def __init__(self) -> None:
        self.periods: Sequence[PeriodUsage] = ()
        self.courses = JobCourses()
        self.blocks = Blocks()
        self.history = JobHistory(self.blocks, ManualClock(epoch=NOW * NANOSECONDS))

    async def open_periods(self) -> Sequence[PeriodUsage]:
        return self.periods


def period(start: int, pool: str, cpu: int, owner: str = "ann", seconds: int = HOUR_SECONDS) -> PeriodUsage:
    return PeriodUsage(seconds, start, Group(pool, owner, (("team", owner),)), Amounts(cpu * MICRO))


@pytest.fixture
async def usage(with_job: Served) -> tuple[UsageService, Hour, str]:
    """A service at NOW, with an account of two pools; returns the id of the first pool, too."""
    store, hour = with_job.engine.store, Hour()
    first, second = (pool.id for pool in POOLS[:2])
    for start in (OPEN - 2 * HOUR_SECONDS, OPEN - HOUR_SECONDS):
        rows = [period(start, first, 1), period(start, second, 10), period(start, second, 100, "bob")]
        await store.usage.close(HOUR_SECONDS, start, rows)
    for day in (0, 60):
        start = DAY + day * DAY_SECONDS
        await store.usage.close(DAY_SECONDS, start, [period(start, first, 1000, seconds=DAY_SECONDS)])
    hour.periods = [period(OPEN, first, 5)]
    clock = ManualClock(epoch=NOW * NANOSECONDS)
    enter(Principal("ann", Kind.USER), EVERYTHING)
    made = UsageService(with_job.engine, lambda _: None, None, hour, clock)  # type: ignore[arg-type, return-value]
    return made, hour, first


async def cpus(service: UsageService, request: pb.ListAccountsRequest) -> list[tuple[object, ...]]:
    answer = await service.ListAccounts(request, None)
    return [(each.pool, each.owner, each.amounts.held_cpu) for each in answer.accounts]


async def test_accounts_are_told_apart_as_asked(usage: tuple[UsageService, Hour, str]) -> None:
    service, _, _ = usage
    paths = pool_paths(POOLS)
    one, two = (paths[pool.id] for pool in POOLS[:2])
    since = OPEN - 2 * HOUR_SECONDS
    assert await cpus(service, By(since=since)) == [("", "", 227.0)]
    assert sorted(await cpus(service, By(since=since, by=[By.POOL]))) == sorted(
        [(one, "", 7.0), (two, "", 220.0)]
    )
    assert await cpus(service, By(since=since, by=[By.OWNER])) == [("", "ann", 27.0), ("", "bob", 200.0)]
    by_label = await service.ListAccounts(By(since=since, by=[By.LABELS]), None)
    assert [dict(each.labels) for each in by_label.accounts] == [{"team": "ann"}, {"team": "bob"}]
    hours = await service.ListAccounts(By(since=since, seconds=HOUR_SECONDS), None)
    assert [(each.start, each.amounts.held_cpu) for each in hours.accounts] == [
        (OPEN - 2 * HOUR_SECONDS, 111.0),
        (OPEN - HOUR_SECONDS, 111.0),
        (OPEN, 5.0),
    ]
    assert await cpus(service, By(since=since, until=OPEN)) == [("", "", 222.0)]
    assert await cpus(service, By()) == [("", "", 5.0)]


async def test_the_mean_that_an_instance_has_used_in_the_last_hour(
    usage: tuple[UsageService, Hour, str], with_job: Served
) -> None:
    service, hour, _ = usage
    on = task(state=TaskState.RUNNING, run=1, desired_run=1, start_time=DAY * NANOSECONDS)
    await with_job.engine.put(JOB, {0: on})
    job = with_job.engine.job(JOB)
    assert job is not None
    job.take_reading(0, 1, Reading(NOW * NANOSECONDS, NANOSECONDS, BYTES_PER_MB, 0))
    mine = pb.ListUsedRequest(job_id=JOB)
    (used,) = (await service.ListUsed(mine, None)).jobs
    assert (used.cores_mean, used.mean_seconds) == (0, 0)
    hour.courses = JobCourses()
    begun, lately = NOW - 7200, NOW - 3600
    hour.courses.take(JobId(JOB), begun, lately, Amounts(held_cpu=9 * MICRO, used_cpu=9 * MICRO))
    total = Amounts(held_cpu=(9 + 3600 * 8) * MICRO, used_cpu=(9 + 3600 * 2) * MICRO)
    hour.courses.take(JobId(JOB), None, NOW, total)
    (used,) = (await service.ListUsed(mine, None)).jobs
    assert used.cores_asked == job.task_spec(0).resources.cpu / 1000
    assert used.cores_mean == pytest.approx(used.cores_asked / 4)
    assert used.mean_seconds == pytest.approx(3600)
    assert len((await service.ListUsed(pb.ListUsedRequest(), None)).jobs) == 1
    assert not (await service.ListUsed(pb.ListUsedRequest(job_id=POOLS[0].id), None)).jobs


async def test_days_stand_for_hours_that_are_gone(usage: tuple[UsageService, Hour, str]) -> None:
    service, _, _ = usage
    answer = await service.ListAccounts(By(since=DAY + 1, seconds=DAY_SECONDS), None)
    assert [(each.start - DAY, each.amounts.held_cpu) for each in answer.accounts] == [
        (0, 1000.0),
        (60 * DAY_SECONDS, 1000.0),
        (100 * DAY_SECONDS, 227.0),
    ]
    assert (answer.since, answer.until) == (DAY, OPEN + HOUR_SECONDS)


async def test_an_hour_that_is_closed_meanwhile_counts_once(usage: tuple[UsageService, Hour, str]) -> None:
    service, hour, first = usage
    hour.periods = [period(OPEN - HOUR_SECONDS, first, 111)]
    assert await cpus(service, By(since=OPEN - 2 * HOUR_SECONDS)) == [("", "", 222.0)]


async def test_a_pool_stands_for_those_below_and_others_are_refused(
    usage: tuple[UsageService, Hour, str],
) -> None:
    service, _, _ = usage
    since = OPEN - 2 * HOUR_SECONDS
    assert await cpus(service, By(since=since, pool="/")) == [("", "", 227.0)]
    with pytest.raises(NotFound, match="there is no pool /elsewhere"):
        await service.ListAccounts(By(pool="/elsewhere"), None)
    with pytest.raises(InvalidArgument, match="seconds"):
        await service.ListAccounts(By(seconds=60), None)
    with pytest.raises(InvalidArgument, match="until"):
        await service.ListAccounts(By(since=NOW, until=NOW - 1), None)


async def test_only_pools_whose_jobs_the_caller_may_read_are_told(
    usage: tuple[UsageService, Hour, str],
) -> None:
    service, _, _ = usage
    enter(Principal("ann", Kind.USER), (Scope((pool_paths(POOLS)[POOLS[1].id],)),))
    assert await cpus(service, By(since=OPEN - 2 * HOUR_SECONDS)) == [("", "", 220.0)]
    enter(Principal("ann", Kind.USER), (Scope(own=True),))
    assert await cpus(service, By(since=OPEN - 2 * HOUR_SECONDS)) == []


async def test_the_account_of_a_job_goes_on_from_its_rows(
    usage: tuple[UsageService, Hour, str], with_job: Served
) -> None:
    service, _, pool = usage
    need = (await with_job.engine.store.jobs.config(JOB, 1)).task(0).resources.cpu / 1000
    started = (OPEN - 600) * NANOSECONDS
    await with_job.engine.put(JOB, {0: task(state=TaskState.RUNNING, start_time=started)})
    before = Amounts(round(600 * need * MICRO), 0, 0)
    row = JobHour(JOB, OPEN - HOUR_SECONDS, Group(pool, "ann"), Amounts(), before)
    await with_job.engine.store.usage.write([row])
    request = pb.GetJobAccountRequest(job_id=peloton_pb2.JobID(value=JOB))
    answer = await service.GetJobAccount(request, None)
    assert [(each.start, each.amounts.held_cpu) for each in answer.hours] == [
        (OPEN - HOUR_SECONDS, 600 * need),
        (OPEN, pytest.approx(100 * need)),
    ]
    assert answer.total.held_cpu == pytest.approx(700 * need)
    with pytest.raises(NotFound):
        await service.GetJobAccount(pb.GetJobAccountRequest(), None)


async def test_the_course_of_a_job_goes_back_over_leaders(
    usage: tuple[UsageService, Hour, str], with_job: Served
) -> None:
    service, hour, _ = usage
    job = with_job.engine.job(JOB)
    assert job is not None
    created = OPEN - 2 * HOUR_SECONDS
    job.runtime = replace(job.runtime, creation_time=created * NANOSECONDS)
    earlier = JobHistory(hour.blocks, ManualClock(epoch=OPEN * NANOSECONDS))
    earlier.add(JOB, Point(created, created + 600, (2.0, 1.0, 200.0, 50.0)))
    await earlier.write()
    hour.courses.take(JOB, OPEN, OPEN + 60, Amounts(60 * MICRO))
    request = pb.GetJobAccountRequest(job_id=peloton_pb2.JobID(value=JOB))
    answer = await service.GetJobAccount(request, None)
    assert answer.course_begin == created
    assert [
        (each.until - created, each.held_cores, each.used_cores, each.used_mb) for each in answer.course
    ] == [
        (300, 2, 1, 50),
        (600, 2, 1, 50),
        (2 * HOUR_SECONDS + 60, 1, 0, 0),
    ]
    reads = hour.blocks.reads
    assert await service.GetJobAccount(request, None) == answer and hour.blocks.reads == reads


def test_times_are_whole_hours_and_days() -> None:
    assert span_of(0, 0, NOW) == Span(OPEN, OPEN + HOUR_SECONDS)
    assert with_days(Span(NOW - 100, NOW), NOW) == (Span(NOW - 100, NOW - 100), Span(NOW - 100, NOW))
    days, hours = with_days(Span(DAY + 5, NOW), NOW)
    assert days.since == DAY and days.until == hours.since and hours.until == NOW
    assert days.until % DAY_SECONDS == 0 and NOW - days.until <= 35 * DAY_SECONDS
    days, hours = with_days(Span(DAY, DAY + HOUR_SECONDS), NOW)
    assert days == Span(DAY, DAY + DAY_SECONDS) and hours.until <= hours.since

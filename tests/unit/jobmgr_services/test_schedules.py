"""SchedulingService: schedules are listed, paused and resumed, over the wire."""

from __future__ import annotations

from typing import Any, cast

import grpc
import pytest

from jobmgr.engine.engine import Engine
from jobmgr.services.common.answering import joined_schedules
from jobmgr.services.private.sharing import LAST_SECOND, SharingService
from peloton.api.scheduling import scheduling_pb2 as scheduling_api
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.pool import pool_paths
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb
from peloton.private.jobmgr.scheduling import scheduling_pb2_grpc
from peloton.private.jobmgr.sharing.sharing_pb2 import StartRunRequest
from tests.unit.jobmgr_services.configs import POOLS
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_with_engine import real

__all__ = ["real"]
EARLY = 'name: "early" schedule { cron: "0 3 1 1 *" time_zone: "Europe/Berlin" keep_runs: 5 }'
LATE = 'name: "late" schedule { cron: "0 3 31 12 *" }'
SECOND, THIRD, FOURTH = (f"a0000000-0000-4000-8000-00000000000{last}" for last in "bce")
NOON = "2026-11-28T12:00:00Z"


@pytest.fixture
async def stub(real: Served) -> Any:
    """Two jobs with schedules, and one without."""
    for text, job in ((LATE, JOB), (EARLY, SECOND), ("", THIRD)):
        assert not (await real.create(text, job)).HasField("error")
    return scheduling_pb2_grpc.SchedulingServiceStub(real.channel)


Stub = Any  # the generated type is of blocking calls


async def listed(stub: Stub, **asked: Any) -> list[str]:
    answer = await stub.ListSchedules(pb.ListSchedulesRequest(**asked))
    return [each.name for each in answer.schedules]


async def test_those_that_run_next_come_first_and_paused_ones_last(stub: Stub) -> None:
    answer = await stub.ListSchedules(pb.ListSchedulesRequest())
    first, second = answer.schedules
    assert {first.name, second.name} == {"early", "late"}
    assert first.status.next_times[0] < second.status.next_times[0]
    assert answer.total == 2
    early = first if first.name == "early" else second
    assert (early.schedule.time_zone, early.schedule.keep_runs, early.last_state) == ("Europe/Berlin", 5, 0)
    await stub.PauseSchedule(pb.PauseScheduleRequest(job_id=first.job_id))
    assert await listed(stub) == [second.name, first.name]
    assert await listed(stub, limit=1) == [second.name]


async def test_a_pause_is_told_and_ends(stub: Stub) -> None:
    paused = (await stub.PauseSchedule(pb.PauseScheduleRequest(job_id=job_id()))).status
    assert paused.paused_since
    assert not paused.next_times
    again = (await stub.PauseSchedule(pb.PauseScheduleRequest(job_id=job_id()))).status
    assert again.paused_since == paused.paused_since
    resumed = (await stub.ResumeSchedule(pb.ResumeScheduleRequest(job_id=job_id()))).status
    assert len(resumed.next_times) == 5
    assert not resumed.paused_since


async def test_pools(stub: Stub, real: Served) -> None:
    paths = pool_paths(POOLS)
    [job, _] = (await stub.ListSchedules(pb.ListSchedulesRequest())).schedules
    assert job.pool in paths.values()
    assert len(await listed(stub, pool=job.pool)) == 2
    assert len(await listed(stub, pool="/teams")) == len(await listed(stub, pool="/")) == 2
    with status(grpc.StatusCode.NOT_FOUND, "there is no pool /nowhere"):
        await listed(stub, pool="/nowhere")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "from 0 to 1000"):
        await listed(stub, limit=1001)


async def test_jobs_without_a_schedule_and_stopped_ones_are_refused(stub: Stub, real: Served) -> None:
    with status(grpc.StatusCode.FAILED_PRECONDITION, "has no schedule"):
        await stub.PauseSchedule(pb.PauseScheduleRequest(job_id=job_id(THIRD)))
    with status(grpc.StatusCode.NOT_FOUND):
        await stub.PauseSchedule(pb.PauseScheduleRequest(job_id=job_id(THIRD[:-1] + "d")))
    await real.engine.stop(SECOND, None)
    with status(grpc.StatusCode.FAILED_PRECONDITION):
        await stub.ResumeSchedule(pb.ResumeScheduleRequest(job_id=job_id(SECOND)))
    assert await listed(stub) == ["late"]


@pytest.mark.parametrize(
    ("field", "text"), [("keep_runs: 1001", "from 1 to 1000"), ("keep_days: 3651", "from 1 to 3650")]
)
async def test_bounds(real: Served, field: str, text: str) -> None:
    answer = await real.create(f'schedule {{ cron: "@daily" {field} }}')
    assert isinstance(answer, job_pb2.CreateResponse)
    assert text in str(answer.error)


@pytest.mark.parametrize("time", [0, LAST_SECOND + 1, 2**63 - 1])
async def test_a_run_of_a_time_that_no_clock_shows_is_refused(time: int) -> None:
    """Other job managers ask for runs; the engine is not reached."""
    service = SharingService(cast(Engine, None), cast(Any, None), True)
    with pytest.raises(InvalidArgument, match=f"time: {time} is not seconds since 1970"):
        await service.StartRun(StartRunRequest(job_id=SECOND, time=time), None)


async def test_a_batch_job_is_suspended_and_goes_on(stub: Stub, real: Served) -> None:
    async def since() -> str:
        answer = await real.jobs.Get(job_pb2.GetRequest(id=job_id(THIRD)))
        return str(answer.jobInfo.runtime.suspendedSince)

    assert not await since()
    await stub.SuspendJob(pb.SuspendJobRequest(job_id=job_id(THIRD)))
    assert (await since()).startswith("20")
    await stub.ResumeJob(pb.ResumeJobRequest(job_id=job_id(THIRD)))
    assert not await since()
    with status(grpc.StatusCode.FAILED_PRECONDITION, "pause its schedule"):
        await stub.SuspendJob(pb.SuspendJobRequest(job_id=job_id()))
    with status(grpc.StatusCode.NOT_FOUND):
        await stub.ResumeJob(pb.ResumeJobRequest(job_id=job_id(THIRD[:-1] + "d")))


async def test_a_job_is_created_as_suspended(real: Served) -> None:
    answer = await real.create("", FOURTH, suspended=True)
    assert not answer.HasField("error")
    assert real.engine.job(FOURTH).runtime.suspended
    refused = await real.create('schedule { cron: "@daily" }', SECOND, suspended=True)
    assert "suspended" in str(refused.error) and "pause its schedule" in str(refused.error)


def told(name: str, *times: str) -> pb.Schedule:
    return pb.Schedule(name=name, status=scheduling_api.ScheduleStatus(next_times=times))


def test_schedules_of_all_owners_are_in_one_order() -> None:
    parts = [
        pb.ListSchedulesResponse(schedules=[told("b", NOON, "2027"), told("paused")], total=5),
        pb.ListSchedulesResponse(schedules=[told("a", NOON), told("c", "2026-11-28T11:59:00Z")], total=2),
    ]
    joined = joined_schedules(pb.ListSchedulesRequest(), parts)
    assert [each.name for each in joined.schedules] == ["c", "a", "b", "paused"]
    assert joined.total == 7
    cut = joined_schedules(pb.ListSchedulesRequest(limit=2), parts)
    assert ([each.name for each in cut.schedules], cut.total) == (["c", "a"], 7)


def test_as_many_schedules_of_all_owners_are_listed_as_of_one() -> None:
    parts = [pb.ListSchedulesResponse(schedules=[told(str(number)) for number in range(100)])] * 2
    assert len(joined_schedules(pb.ListSchedulesRequest(), parts).schedules) == 100

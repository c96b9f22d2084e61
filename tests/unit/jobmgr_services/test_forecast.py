"""ListLiveJobs: which jobs are told, and how many at the most."""

from __future__ import annotations

import pytest

from jobmgr.services.private.forecast import ForecastService
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument, ResourceExhausted
from peloton.model.states import TaskState
from peloton.private.jobmgr.forecast import forecast_pb2 as pb
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.fakes import task


async def ask(served: Served, **of: int) -> pb.ListLiveJobsResponse:
    service = ForecastService(served.engine, ManualClock(epoch=77))
    return await service.ListLiveJobs(pb.ListLiveJobsRequest(**of), None)


async def test_active_jobs_with_their_instances(with_job: Served) -> None:
    job = with_job.engine.held[JOB]
    job.fill({0: task(state=TaskState.SUCCEEDED), 1: task()})
    answer = await ask(with_job)
    assert answer.now == 77
    (found,) = answer.jobs
    assert found.id.value == JOB and found.config.instanceCount == job.spec.instance_count
    assert list(found.instances) == [1] and list(found.ended) == [0, 1]
    assert not found.config.defaultConfig.HasField("command"), "what it runs is nobody's business"


async def test_too_many_instances_are_refused(with_job: Served) -> None:
    with_job.engine.held[JOB].fill({0: task(), 1: task(), 2: task(state=TaskState.SUCCEEDED)})
    with pytest.raises(ResourceExhausted, match="2 instances have not ended, which is more than 1"):
        await ask(with_job, most_tasks=1)
    with pytest.raises(InvalidArgument, match="most_tasks"):
        await ask(with_job, most_tasks=50_001)

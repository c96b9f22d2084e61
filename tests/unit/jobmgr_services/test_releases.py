"""InstanceService over the goal-state engine: released numbers are used again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.job.instances import instances_pb2 as pb
from peloton.api.v0.job.instances import instances_pb2_grpc
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from tests.unit.jobmgr_services.configs import SERVICE, job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_tasks import ranges
from tests.unit.jobmgr_services.test_with_engine import real, states

__all__ = ["real"]
ONE_AT_A_TIME = "sla { maximumRunningInstances: 1 }"
"""All but the first instance end at once where they are released: they are not in the resource manager."""


async def release(
    served: Served, *pairs: tuple[int, int], count: int = 0, version: int = 0
) -> pb.ReleaseInstancesResponse:
    request = pb.ReleaseInstancesRequest(
        job_id=job_id(), ranges=ranges(*pairs), instance_count=count, resource_version=version
    )
    stub = instances_pb2_grpc.InstanceServiceStub(served.channel)
    answer: pb.ReleaseInstancesResponse = await stub.ReleaseInstances(request)
    return answer


async def update(served: Served, count: int, more: str = "") -> job_pb2.UpdateResponse:
    config = job(f"{ONE_AT_A_TIME} {more}")
    config.instanceCount = count
    answer: job_pb2.UpdateResponse = await served.jobs.Update(
        job_pb2.UpdateRequest(id=job_id(), config=config)
    )
    return answer


async def get(served: Served) -> job_pb2.JobInfo:
    info: job_pb2.JobInfo = (await served.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo
    return info


async def numbers(served: Served) -> list[int]:
    answer = await served.tasks.List(task_pb2.ListRequest(jobId=job_id()))
    return sorted(answer.result.value)


async def created(served: Served, count: int) -> None:
    await served.create(f"{ONE_AT_A_TIME} instanceCount: {count}")
    await states(served, [task_pb2.INITIALIZED] * count)


async def test_numbers_are_used_again_the_lowest_first(real: Served) -> None:
    await created(real, 6)
    answer = await release(real, (4, 5), (1, 3))
    assert list(answer.released_instances) == [1, 2, 4] and answer.instance_count == 3
    assert await numbers(real) == [0, 3, 5]
    info = await get(real)
    assert info.config.instanceCount == 3 and info.runtime.releasedInstances == 3
    assert sum(info.runtime.taskStats.values()) == 3

    added = await update(real, 5)
    assert list(added.addedInstances) == [1, 2] and added.message == "added 2 instances"
    assert await numbers(real) == [0, 1, 2, 3, 5]
    assert (await get(real)).runtime.configurationVersion == info.runtime.configurationVersion
    assert list((await update(real, 8)).addedInstances) == [4, 6, 7]
    info = await get(real)
    assert info.config.instanceCount == 8 and not info.runtime.releasedInstances
    assert info.runtime.configurationVersion == 2
    assert not (await update(real, 8)).addedInstances


async def test_a_new_instance_begins_with_the_next_run_and_the_old_one_stays_in_the_history(
    real: Served,
) -> None:
    await created(real, 3)
    for run in range(1, 4):
        await release(real, (2, 3))
        gone = await real.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=2))
        assert not gone.result.HasField("runtime") and len(gone.results) == 1 + run
        assert list((await update(real, 3)).addedInstances) == [2]
        now = await real.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=2))
        assert now.result.runtime.mesosTaskId.value == f"{JOB}-2-{run + 1}"
        assert now.result.runtime.state == task_pb2.INITIALIZED
    events = await real.tasks.GetPodEvents(task_pb2.GetPodEventsRequest(jobId=job_id(), instanceId=2))
    assert {each.taskId.value for each in events.result} == {f"{JOB}-2-{run}" for run in range(1, 5)}


async def test_what_is_released_stays_so(real: Served) -> None:
    await created(real, 4)
    assert list((await release(real, (1, 3))).released_instances) == [1, 2]
    again = await release(real, (1, 4))
    assert list(again.released_instances) == [3] and list(again.already_released_instances) == [1, 2]
    assert again.instance_count == 1
    whole = await release(real, (1, 4))
    assert not whole.released_instances and whole.instance_count == 1


async def test_the_highest_ones_go_where_a_count_is_given(real: Served) -> None:
    await created(real, 6)
    await release(real, (4, 5))
    answer = await release(real, count=3)
    assert list(answer.released_instances) == [3, 5] and answer.instance_count == 3
    assert not (await release(real, count=3)).released_instances
    assert not (await release(real, count=5)).released_instances
    assert await numbers(real) == [0, 1, 2]


async def test_an_instance_that_is_in_the_resource_manager_is_not_counted_from_the_release_on(
    real: Served,
) -> None:
    await created(real, 2)
    await release(real, (0, 1))
    info = await get(real)
    assert info.config.instanceCount == 1 and sum(info.runtime.taskStats.values()) == 2
    assert list((await update(real, 2)).addedInstances) == [2]  # 0 has not ended
    assert await numbers(real) == [0, 1, 2]
    assert (await get(real)).config.instanceCount == 2


async def test_released_instances_may_come_back_with_another_config(real: Served) -> None:
    await created(real, 3)
    own = 'instanceConfig { key: 2 value { command { value: "sleep 9" } } }'
    refused = (await update(real, 3, own)).error.invalidConfig.message
    assert "instances that exist keep theirs" in refused
    await release(real, (2, 3))
    assert list((await update(real, 3, own)).addedInstances) == [2]
    held = await real.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=2))
    assert held.result.config.command.value == "sleep 9"
    assert 2 in (await get(real)).config.instanceConfig
    await release(real, (2, 3))
    seen = (await get(real)).config
    assert 2 not in seen.instanceConfig
    seen.instanceCount += 1
    again = await real.jobs.Update(job_pb2.UpdateRequest(id=job_id(), config=seen))
    assert list(again.addedInstances) == [2]
    held = await real.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=2))
    assert held.result.config.command.value == "echo hello"


async def test_the_fewest_instances_of_an_update_are_those_that_are_not_released(real: Served) -> None:
    await created(real, 4)
    await release(real, (2, 4))
    refused = (await update(real, 1)).error.invalidConfig.message
    assert "instanceCount" in refused and "at least 2" in refused and "ReleaseInstances" in refused


async def test_queries_count_what_is_not_released(real: Served) -> None:
    await created(real, 5)
    await release(real, (1, 4))
    found = await real.jobs.Query(job_pb2.QueryRequest(spec=job_pb2.QuerySpec()))
    assert found.results[0].instanceCount == found.records[0].config.instanceCount == 2
    assert found.results[0].runtime.releasedInstances == 3
    tasks = await real.tasks.Query(task_pb2.QueryRequest(jobId=job_id()))
    assert [each.instanceId for each in tasks.records] == [0, 4] and tasks.pagination.total == 2
    request = stateless_svc_pb2.GetJobRequest(job_id=v1alpha_pb2.JobID(value=JOB))
    v1alpha = (await real.services.GetJob(request)).job_info
    assert v1alpha.spec.instance_count == 2 and v1alpha.status.released_instances == 3
    listed = [each.instance_count async for each in _summaries(real)]
    assert listed == [2]


async def _summaries(served: Served) -> AsyncIterator[stateless_pb2.JobSummary]:
    async for answer in served.services.ListJobs(stateless_svc_pb2.ListJobsRequest()):
        for each in answer.jobs:
            yield each


@pytest.mark.parametrize(
    ("more", "pairs", "text"),
    [
        ("", [(0, 3)], "'3 instances' is not fewer than 3 instances"),
        ("", [(2, 9)], "within the job's instances, 0 to 2"),
        ("", [], "ranges, instance_count"),
        ("sla { minimumRunningInstances: 2 }", [(1, 2)], "instances 0 to 1 are one gang"),
        ("instanceConfig { key: 0 value { controller: true } }", [(0, 1)], "its controller"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    real: Served, more: str, pairs: list[tuple[int, int]], text: str
) -> None:
    await real.create(more)
    await states(real, [task_pb2.INITIALIZED] * 3)
    with status(grpc.StatusCode.INVALID_ARGUMENT, text):
        await release(real, *pairs)
    assert await numbers(real) == [0, 1, 2]


async def test_versions_types_and_ends_are_heeded(real: Served) -> None:
    await created(real, 3)
    with status(grpc.StatusCode.ABORTED, "resource_version 7 is stale: the job is at 1"):
        await release(real, (1, 2), version=7)
    assert (await release(real, (1, 2), version=1)).resource_version == 1
    with status(grpc.StatusCode.INVALID_ARGUMENT, "one of them"):
        await release(real, (1, 2), count=1)
    service = job(base=SERVICE)
    await real.jobs.Create(job_pb2.CreateRequest(id=job_id("b" + JOB[1:]), config=service))
    stub = instances_pb2_grpc.InstanceServiceStub(real.channel)
    with status(grpc.StatusCode.INVALID_ARGUMENT, "a service shrinks by an update"):
        await stub.ReleaseInstances(
            pb.ReleaseInstancesRequest(job_id=job_id("b" + JOB[1:]), instance_count=1)
        )
    with status(grpc.StatusCode.NOT_FOUND):
        await stub.ReleaseInstances(
            pb.ReleaseInstancesRequest(job_id=job_id("c" + JOB[1:]), instance_count=1)
        )

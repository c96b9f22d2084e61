"""What the small layer does again: creations with an id of the caller, and pages of a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.job.instances import instances_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.client import CallError
from tests.unit.cli.fakes import FakeDaemons, serving
from tests.unit.client.both import KINDS, Ask, blocking

ID = "8d4d6a3e-57f5-4b3f-9a4c-0f7b3ad7f6d1"


@pytest.fixture
def daemons() -> FakeDaemons:
    return FakeDaemons()


@pytest.fixture
def address(daemons: FakeDaemons) -> Iterator[str]:
    with serving(daemons) as found:
        yield found


@pytest.fixture(params=KINDS)
def ask(request: Any) -> Ask:
    return request.param  # type: ignore[no-any-return]


def exists(request: Any) -> job_pb2.CreateResponse:
    refusal = job_pb2.JobAlreadyExists(id=request.id, message="already exists")
    return job_pb2.CreateResponse(error=job_pb2.CreateResponse.Error(alreadyExists=refusal))


async def test_a_job_with_an_id_may_be_created_again(daemons: FakeDaemons, address: str, ask: Ask) -> None:
    daemons.answers["Create"] = exists
    daemons.answers["Get"] = job_pb2.GetResponse(
        jobInfo=job_pb2.JobInfo(config=job_pb2.JobConfig(name="mine"))
    )

    def create(name: str) -> Any:
        spec = job_pb2.JobConfig(name=name)
        return ask(lambda client: client.jobs.create("", spec, job_id=ID), jm_url=address)

    assert await create("mine") == ID
    with pytest.raises(CallError, match="its name is 'mine', not 'another'") as refused:
        await create("another")
    assert refused.value.code is grpc.StatusCode.ALREADY_EXISTS


async def test_a_service_with_an_id_may_be_created_again(
    daemons: FakeDaemons, address: str, ask: Ask
) -> None:
    daemons.answers["CreateJob"] = (grpc.StatusCode.ALREADY_EXISTS, "already exists")
    info = stateless_pb2.JobInfo(spec=stateless_pb2.JobSpec(name="mine"))
    daemons.answers["GetJob"] = stateless_svc_pb2.GetJobResponse(job_info=info)

    def create(name: str) -> Any:
        spec = stateless_pb2.JobSpec(name=name)
        return ask(lambda client: client.jobs.create_service("", spec, job_id=ID), jm_url=address)

    assert await create("mine") == ID
    with pytest.raises(CallError, match="not 'another'"):
        await create("another")


async def test_a_page_is_read_again(daemons: FakeDaemons, address: str) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse(
        jobInfo=job_pb2.JobInfo(config=job_pb2.JobConfig(instanceCount=2500))
    )
    asked: list[int] = []

    def page(request: Any) -> Any:
        first = getattr(request.range, "from")
        asked.append(first)
        if asked.count(1000) == 1:
            return grpc.StatusCode.DEADLINE_EXCEEDED, "a frozen leader"
        answer = task_pb2.ListResponse()
        for instance in range(first, min(first + 1000, 2500)):
            answer.result.value[instance].instanceId = instance
        return answer

    daemons.answers["List"] = page
    found = await blocking(
        lambda client: [each.instanceId for each in client.jobs.instances("x")], jm_url=address, timeout=5
    )
    assert found == list(range(2500))
    assert asked == [0, 1000, 1000, 2000]


async def test_instances_are_released_by_number(daemons: FakeDaemons, address: str, ask: Ask) -> None:
    daemons.answers["ReleaseInstances"] = instances_pb2.ReleaseInstancesResponse(released_instances=[2, 7])
    assert await ask(lambda client: client.jobs.release("x", [7, 2, 2]), jm_url=address) == [2, 7]
    request = daemons.requests("ReleaseInstances")[0]
    assert [(getattr(each, "from"), each.to) for each in request.ranges] == [(2, 3), (7, 8)]
    assert await ask(lambda client: client.jobs.release("x", []), jm_url=address) == []
    assert len(daemons.requests("ReleaseInstances")) == 1


async def test_instances_are_read_up_to_the_highest_number(daemons: FakeDaemons, address: str) -> None:
    runtime = job_pb2.RuntimeInfo(releasedInstances=1200)
    info = job_pb2.JobInfo(config=job_pb2.JobConfig(instanceCount=2), runtime=runtime)
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=info)

    def page(request: Any) -> Any:
        answer = task_pb2.ListResponse()
        held = {0, 1201} & set(range(getattr(request.range, "from"), request.range.to))
        for instance in held:
            answer.result.value[instance].instanceId = instance
        return answer

    daemons.answers["List"] = page
    found = await blocking(
        lambda client: [each.instanceId for each in client.jobs.instances("x")], jm_url=address
    )
    assert found == [0, 1201]

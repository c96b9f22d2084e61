"""The private JobManagerService."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import grpc
import pytest

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.throttling import THROTTLED
from jobmgr.services.private import job_manager
from jobmgr.services.private.job_manager import JobManagerService
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import WorkflowOptions
from peloton.private.jobmgrsvc import jobmgrsvc_pb2
from peloton.wire.payload import spec_from_v1alpha
from tests.unit.jobmgr_services.conftest import JOB, Served, status
from tests.unit.jobmgr_services.fakes import task
from tests.unit.wire.specs import job as service_spec

OTHER = "a0000000-0000-4000-8000-00000000000b"
Query = jobmgrsvc_pb2.QueryJobCacheRequest


async def test_refresh(with_job: Served) -> None:
    request = jobmgrsvc_pb2.RefreshJobRequest(job_id=peloton_pb2.JobID(value=JOB))
    await with_job.private.RefreshJob(request)
    assert with_job.engine.requests == [("refresh",)]
    for stranger in ("", OTHER):
        request.job_id.value = stranger
        with status(grpc.StatusCode.NOT_FOUND):
            await with_job.private.RefreshJob(request)


@pytest.mark.parametrize(
    ("name", "labels", "found"),
    [
        ("", {}, [JOB, OTHER]),
        ("hello", {}, [JOB]),
        ("*l*", {}, [JOB, OTHER]),
        ("hell", {}, []),
        ("", {"a": "b"}, [OTHER]),
        ("", {"a": "c"}, []),
    ],
)
async def test_query_job_cache(with_job: Served, name: str, labels: dict[str, str], found: list[str]) -> None:
    await with_job.create('name: "else" labels { key: "a" value: "b" }', OTHER)
    spec = Query.CacheQuerySpec(
        name=name, labels=[peloton_pb2.Label(key=key, value=value) for key, value in labels.items()]
    )
    answer = await with_job.private.QueryJobCache(Query(spec=spec))
    assert [each.job_id.value for each in answer.result] == found


@pytest.fixture
async def service(served: Served) -> Served:
    """A service of three whose pod 0 runs, 1 waits after a failure, and 2 has no row yet."""
    await served.workflows.create_job(JOB, spec_from_v1alpha(service_spec(), 1), WorkflowOptions())
    await served.engine.put(
        JOB,
        {
            0: task(state=TaskState.RUNNING, goal=TaskState.RUNNING),
            1: task(
                state=TaskState.FAILED,
                goal=TaskState.RUNNING,
                message=THROTTLED,
                failure_count=2,
                throttled=True,
            ),
        },
    )
    return served


async def throttled(served: Served) -> list[str]:
    answer = await served.private.GetThrottledPods(jobmgrsvc_pb2.GetThrottledPodsRequest())
    return [pod.value for pod in answer.throttled_pods]


async def availability(served: Served, *instances: int, job: str = JOB) -> dict[int, str]:
    request = jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobRequest(
        job_id=peloton_pb2.JobID(value=job), instances=instances
    )
    answer = await served.private.GetInstanceAvailabilityInfoForJob(request)
    return dict(answer.instance_availability_map)


async def test_throttled_pods(service: Served) -> None:
    engine = service.engine
    failed = task(state=TaskState.FAILED, goal=TaskState.RUNNING, message=THROTTLED, throttled=True)
    await service.workflows.create_job(OTHER, spec_from_v1alpha(service_spec(), 1), WorkflowOptions())
    await engine.put(OTHER, dict.fromkeys(range(3), failed))
    for _ in range(2):
        assert await throttled(service) == [f"{JOB}-1", *(f"{OTHER}-{i}" for i in range(3))]
    await engine.put(OTHER, {0: replace(failed, goal=TaskState.KILLED), 1: task(message="Task throttled")})
    assert await throttled(service) == [f"{JOB}-1", f"{OTHER}-2"]


async def test_pods_of_other_jobs_are_not_throttled(service: Served) -> None:
    """A batch job; a service that is stopped; one that was deleted while others were looked at."""
    failed = task(state=TaskState.FAILED, goal=TaskState.RUNNING, message=THROTTLED, throttled=True)
    await service.create(job=OTHER)
    await service.engine.put(OTHER, {0: failed})
    jobs = [*service.engine.held, OTHER[:-1] + "c"]
    service.engine.active_jobs = lambda: jobs
    assert await throttled(service) == [f"{JOB}-1"]
    held = service.engine.held[JOB]
    held.runtime = replace(held.runtime, goal=JobState.KILLED)
    assert await throttled(service) == []


async def test_job_cache(service: Served) -> None:
    request = jobmgrsvc_pb2.GetJobCacheRequest(job_id=peloton_pb2.JobID(value=JOB))
    for _ in range(2):
        answer = await service.private.GetJobCache(request)
        assert answer.spec.name == "web" and answer.status.version.value == "1-1-1"
        assert answer.status.workflow_status.type == stateless_pb2.WORKFLOW_TYPE_UPDATE
    for stranger in ("", "no-id", OTHER):
        request.job_id.value = stranger
        with status(grpc.StatusCode.NOT_FOUND, "job not found in memory"):
            await service.private.GetJobCache(request)
    await service.engine.end(JOB, state=JobState.KILLED)
    request.job_id.value = JOB
    with status(grpc.StatusCode.NOT_FOUND, "only active jobs"):
        await service.private.GetJobCache(request)


async def test_batch_jobs_are_in_the_cache_too(with_job: Served) -> None:
    request = jobmgrsvc_pb2.GetJobCacheRequest(job_id=peloton_pb2.JobID(value=JOB))
    answer = await with_job.private.GetJobCache(request)
    assert answer.spec.name == "hello" and not answer.status.HasField("workflow_status")


async def test_availability(service: Served) -> None:
    for _ in range(2):
        assert await availability(service) == {0: "AVAILABLE", 1: "UNAVAILABLE", 2: "INVALID"}
    assert await availability(service, 1, 7, 1) == {1: "UNAVAILABLE", 7: "INVALID"}
    killed = task(state=TaskState.KILLED, goal=TaskState.KILLED)
    removed = task(state=TaskState.KILLING, goal=TaskState.DELETED)
    service.engine.held[JOB].fill({3: removed})
    await service.engine.put(JOB, {2: killed})
    assert await availability(service) == {0: "AVAILABLE", 1: "UNAVAILABLE", 2: "KILLED", 3: "DELETED"}


async def test_availability_in_a_job_that_is_stopped_or_not_there(service: Served) -> None:
    held = service.engine.held[JOB]
    held.runtime = replace(held.runtime, goal=JobState.KILLED)
    assert await availability(service) == {0: "KILLED", 1: "KILLED", 2: "INVALID"}
    await service.engine.end(JOB, state=JobState.KILLED)
    assert await availability(service, 0) == {0: "KILLED"}
    for stranger in ("", "no-id", OTHER):
        with status(grpc.StatusCode.NOT_FOUND, "job not found"):
            await availability(service, job=stranger)


async def test_services_without_ended_instances_are_not_looked_through(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their tasks may be 100,000, and the loop has other work between any two turns of this call."""
    engine = service.engine
    turns = 0
    looked: list[str] = []
    sleep, created = asyncio.sleep, CachedJob.created

    async def turn(seconds: float) -> None:
        nonlocal turns
        turns += 1
        await sleep(seconds)

    def look(job: CachedJob, first: int = 0, end: int | None = None) -> Any:
        looked.append(job.job_id)
        return created(job, first, end)

    monkeypatch.setattr(job_manager, "asyncio", SimpleNamespace(sleep=turn))
    monkeypatch.setattr(CachedJob, "created", look)
    jobs = [str(UUID(int=number + 1, version=4)) for number in range(3000)]
    runs = CachedJob(OTHER, engine.held[JOB].spec, engine.held[JOB].runtime)
    runs.fill({0: task(state=TaskState.RUNNING, goal=TaskState.RUNNING)})
    engine.held.update(dict.fromkeys(jobs, runs))
    private = JobManagerService(engine, service.workflows)
    answer = await private.GetThrottledPods(jobmgrsvc_pb2.GetThrottledPodsRequest(), None)
    assert [each.value for each in answer.throttled_pods] == [f"{JOB}-1"]
    assert looked == []
    assert turns <= 5

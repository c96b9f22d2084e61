"""The private JobManagerService."""

from __future__ import annotations

import grpc
import pytest

from peloton.api.v1alpha import peloton_pb2
from peloton.private.jobmgrsvc import jobmgrsvc_pb2
from tests.unit.jobmgr_services.conftest import JOB, Served, status

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


async def test_calls_for_services_are_refused(with_job: Served) -> None:
    with status(grpc.StatusCode.UNIMPLEMENTED, "services"):
        await with_job.private.GetThrottledPods(jobmgrsvc_pb2.GetThrottledPodsRequest())
    with status(grpc.StatusCode.UNIMPLEMENTED, "JobManager.GetCache"):
        await with_job.private.GetJobCache(jobmgrsvc_pb2.GetJobCacheRequest())

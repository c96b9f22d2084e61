"""Calls that are made again because an answer was lost: they succeed where the first try was done."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.leaders import REPEATED
from tests.unit.jobmgr_services.conftest import Served, status
from tests.unit.jobmgr_services.test_services import job_id, opaque, request_of
from tests.unit.jobmgr_services.test_services_with_engine import create
from tests.unit.jobmgr_services.test_with_engine import real
from tests.unit.wire.specs import job

__all__ = ["real"]
NEWER = "instance_count: 4 default_spec { kill_grace_period_seconds: 3 }"


async def again(served: Served, method: str, request: Any) -> Any:
    """The same call, by a client that has no answer to its first try."""
    return await getattr(served.services, method)(request, metadata=((REPEATED, "1"),))


async def check_own(served: Served, method: str, request: Any) -> Any:
    """Make a call, and again: the answer is the same; without the client's word it is stale."""
    first = await getattr(served.services, method)(request)
    assert await again(served, method, request) == first
    with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
        await getattr(served.services, method)(request)
    return first.version


async def test_updates(real: Served) -> None:
    seen = await create(real)
    abort = pb.AbortJobWorkflowRequest(job_id=job_id(), version=seen)
    seen = await check_own(real, "AbortJobWorkflow", abort)
    update = stateless_pb2.UpdateSpec(batch_size=1, start_paused=True)
    replace = pb.ReplaceJobRequest(
        job_id=job_id(), version=seen, spec=job(NEWER), update_spec=update, opaque_data=opaque("mine")
    )
    updated = await check_own(real, "ReplaceJob", replace)
    resumed = await check_own(
        real, "ResumeJobWorkflow", pb.ResumeJobWorkflowRequest(job_id=job_id(), version=updated)
    )
    # The update is the caller's own though its workflow has gone on.
    assert (await again(real, "ReplaceJob", replace)).version == updated
    paused = await check_own(
        real, "PauseJobWorkflow", pb.PauseJobWorkflowRequest(job_id=job_id(), version=resumed)
    )
    patch = stateless_pb2.JobSpec(description="another")
    await check_own(real, "PatchJob", pb.PatchJobRequest(job_id=job_id(), version=paused, spec=patch))


@pytest.mark.parametrize(
    "change",
    [
        {"spec": job("instance_count: 5")},
        {"opaque_data": opaque("another")},
        {"update_spec": stateless_pb2.UpdateSpec(batch_size=2)},
    ],
)
async def test_what_somebody_else_has_updated_stays_a_conflict(real: Served, change: dict[str, Any]) -> None:
    seen = await create(real)
    theirs: dict[str, Any] = {"spec": job(NEWER), "opaque_data": opaque("theirs")}
    await real.services.ReplaceJob(pb.ReplaceJobRequest(job_id=job_id(), version=seen, **theirs))
    mine = pb.ReplaceJobRequest(job_id=job_id(), version=seen, **{**theirs, **change})
    with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
        await again(real, "ReplaceJob", mine)


async def test_restarts(real: Served) -> None:
    seen = await create(real)
    abort = await real.services.AbortJobWorkflow(pb.AbortJobWorkflowRequest(job_id=job_id(), version=seen))
    request = pb.RestartJobRequest(job_id=job_id(), version=abort.version)
    await check_own(real, "RestartJob", request)
    request.restart_spec.ranges.add(to=1)
    with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
        await again(real, "RestartJob", request)


async def test_goals(real: Served) -> None:
    seen = await create(real)
    stop = pb.StopJobRequest(job_id=job_id(), version=seen)
    stopped = await check_own(real, "StopJob", stop)
    with status(grpc.StatusCode.ABORTED):
        await again(real, "StartJob", pb.StartJobRequest(job_id=job_id(), version=seen))
    start = pb.StartJobRequest(job_id=job_id(), version=stopped)
    started = await check_own(real, "StartJob", start)
    delete = pb.DeleteJobRequest(job_id=job_id(), version=started, force=True)
    await real.services.DeleteJob(delete)
    await again(real, "DeleteJob", delete)


async def test_a_job_that_is_gone(real: Served) -> None:
    request = pb.DeleteJobRequest(job_id=job_id("00000000-0000-4000-8000-000000000000"))
    with status(grpc.StatusCode.NOT_FOUND):
        await real.services.DeleteJob(request)
    await again(real, "DeleteJob", request)


async def test_versions_that_no_change_was_made_from(real: Served) -> None:
    seen = await create(real)
    for method in ("ReplaceJob", "PatchJob", "RestartJob", "PauseJobWorkflow", "StartJob", "StopJob"):
        request = request_of(method, job_id=job_id(), version=seen)
        request.version.value = "1-1-0"
        with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
            await again(real, method, request)

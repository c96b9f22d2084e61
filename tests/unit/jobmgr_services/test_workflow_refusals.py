"""JobService over the engine: calls that the state of a job refuses, with code and message; repetition."""

from __future__ import annotations

import re
from typing import Any

import grpc
import pytest

from jobmgr.engine.workflows import Workflows
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pods_pb
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.test_services import job_id, opaque, ranges, request_of
from tests.unit.jobmgr_services.test_with_engine import real
from tests.unit.wire.specs import job
from tests.waiting import until

__all__ = ["real"]
INVALID, ABORTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED
REFUSED = grpc.StatusCode.FAILED_PRECONDITION
STEERING = [("Pause", "paused"), ("Resume", "resumed"), ("Abort", "aborted")]
NEWER = "default_spec { kill_grace_period_seconds: 3 }"


class Service:
    """The job, with the version that was answered last."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.version = peloton_pb2.EntityVersion()

    async def call(self, method: str, **fields: Any) -> Any:
        request = request_of(method, job_id=job_id(), version=self.version)
        for name, value in fields.items():
            if isinstance(value, bool):
                setattr(request, name, value)
            else:
                getattr(request, name).CopyFrom(value)
        answer = await getattr(self.served.services, method)(request)
        self.version = getattr(answer, "version", self.version)
        return answer

    async def refused(self, method: str, **fields: Any) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await self.call(method, **fields)
        return failure.value.code(), failure.value.details() or ""

    async def workflow(self) -> str:
        """Return the type and id of the last workflow."""
        (last, *_) = await Workflows(self.served.engine).list(JOB)
        return f"{last.workflow.type.name} {last.workflow.id}"

    async def created(self) -> None:
        """Wait until all instances have a row."""
        held = self.served.engine.job(JOB)
        await until(lambda: len(held.tasks) == held.spec.instance_count, "all instances are created")


@pytest.fixture
async def service(real: Served) -> Service:
    """With an update of three instances, one by one, that is its creation."""
    made = Service(real)
    spec = stateless_pb2.CreateSpec(batch_size=1)
    request = pb.CreateJobRequest(job_id=job_id(), spec=job(), create_spec=spec)
    made.version = (await real.services.CreateJob(request)).version
    return made


@pytest.mark.parametrize(("action", "done"), STEERING)
async def test_a_workflow_that_has_ended_is_named_with_its_state(
    service: Service, action: str, done: str
) -> None:
    await service.call("AbortJobWorkflow")
    text = f"workflow: '{await service.workflow()}, which is ABORTED' is not one that can be {done}: "
    for _ in range(2):
        code, told = await service.refused(f"{action}JobWorkflow")
        assert (code, told) == (INVALID, text + "it has ended; a new one may begin")


async def test_repetition_of_steering_changes_nothing(service: Service) -> None:
    for method in ("PauseJobWorkflow", "ResumeJobWorkflow"):
        await service.call(method)
        once = service.version.value
        await service.call(method)
        assert service.version.value == once


async def test_one_workflow_excludes_another(service: Service) -> None:
    begun = "(INITIALIZED|ROLLING_FORWARD)"  # it has its first round in a cycle of its own
    running = await service.workflow()
    await service.created()
    code, told = await service.refused("RestartJob")
    assert code is INVALID
    assert re.fullmatch(
        f"workflow: 'RESTART' is not possible while {running} is {begun}: abort it, or wait", told
    )
    await service.call("AbortJobWorkflow")
    await service.call("RestartJob", restart_spec=stateless_pb2.RestartSpec(batch_size=1))
    running = await service.workflow()
    for method in ("ReplaceJob", "PatchJob"):
        code, told = await service.refused(method)
        assert code is INVALID
        assert re.fullmatch(
            f"workflow: 'UPDATE' is not possible while {running} is {begun}: abort it, or wait", told
        )


async def test_a_repeated_restart_is_the_same_one(service: Service) -> None:
    await service.created()
    await service.call("AbortJobWorkflow")
    spec = stateless_pb2.RestartSpec(batch_size=1, ranges=ranges((0, 2)))
    await service.call("RestartJob", restart_spec=spec, opaque_data=opaque("one"))
    once, version = await service.workflow(), service.version.value
    await service.call("RestartJob", restart_spec=spec, opaque_data=opaque("two"))
    assert await service.workflow() == once
    assert service.version.value != version


async def test_a_service_is_stopped_after_an_update_that_starts_its_pods(service: Service) -> None:
    update = stateless_pb2.UpdateSpec(batch_size=1, start_pods=True)
    await service.call("ReplaceJob", update_spec=update, spec=job(NEWER))
    expected = (ABORTED, "an update that starts stopped instances is running: abort it first")
    assert await service.refused("StopJob") == expected
    await service.call("AbortJobWorkflow")
    await service.call("StopJob")


async def test_only_what_is_stopped_is_deleted_without_force(service: Service) -> None:
    code, told = await service.refused("DeleteJob")
    assert code is ABORTED
    assert told.startswith("the job is ") and told.endswith(": stop it first, or delete it with force")


async def test_a_job_that_is_being_deleted_is_left_alone(service: Service) -> None:
    await service.created()
    await service.call("AbortJobWorkflow")
    await service.call("DeleteJob", force=True)
    found = await service.served.services.GetJob(pb.GetJobRequest(job_id=job_id()))
    service.version = found.job_info.status.version
    for method in ("ReplaceJob", "PatchJob", "RestartJob", "StartJob", "StopJob"):
        assert await service.refused(method) == (REFUSED, f"job {JOB} is being deleted"), method
    code, told = await service.refused("DeleteJob", force=True)
    assert (code, told) == (REFUSED, f"job {JOB} is being deleted")
    name = peloton_pb2.PodName(value=f"{JOB}-0")
    for verb, method in (("start", "StartPod"), ("restart", "RestartPod")):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await getattr(service.served.pods, method)(getattr(pods_pb, f"{method}Request")(pod_name=name))
        assert failure.value.code() is REFUSED
        assert failure.value.details() == f"cannot {verb} tasks in a job that is being deleted"


@pytest.mark.parametrize("method", ["ReplaceJob", "PatchJob", "GetReplaceJobDiff"])
async def test_specs_that_are_refused(service: Service, method: str) -> None:
    moved = job("respool_id { value: 'elsewhere' }")
    code, told = await service.refused(method, spec=moved)
    assert code is INVALID
    assert told.startswith("respool_id: 'elsewhere' is not ") and told.endswith("a job stays in its pool")
    code, told = await service.refused(method, spec=job("instance_count: 100001"))
    assert (code, told) == (INVALID, "instance_count: 100001 is not a number from 1 to 100000")


@pytest.mark.parametrize("method", ["ReplaceJob", "PatchJob"])
async def test_repetition_with_the_version_of_before_is_stale(service: Service, method: str) -> None:
    before = service.version
    await service.call(method, spec=job(NEWER))
    service.version = before
    assert await service.refused(method, spec=job(NEWER)) == (ABORTED, "unexpected entity version")


async def test_start_and_refresh_may_be_repeated(service: Service) -> None:
    for _ in range(2):
        await service.call("StartJob")
        await service.served.services.RefreshJob(pb.RefreshJobRequest(job_id=job_id()))
    assert service.version.value == "1-1-1"


async def test_pods_that_an_update_removes_are_not_found(service: Service) -> None:
    await service.created()
    await service.call("ReplaceJob", spec=smaller())
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await service.served.pods.GetPod(
            pods_pb.GetPodRequest(pod_name=peloton_pb2.PodName(value=f"{JOB}-2"))
        )
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    assert failure.value.details() == f"pod {JOB}-2 not found: the job has 2 instances"


def smaller() -> stateless_pb2.JobSpec:
    spec = job()
    spec.instance_count = 2
    return spec

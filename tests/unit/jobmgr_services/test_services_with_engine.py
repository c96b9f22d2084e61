"""JobService and PodService over the goal-state engine itself, without the other daemons."""

from __future__ import annotations

from typing import Any

import grpc

from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pods_pb
from tests.unit.jobmgr_services.conftest import JOB, Served, status
from tests.unit.jobmgr_services.conftest import job_id as v0_job_id
from tests.unit.jobmgr_services.test_services import job_id, opaque, request_of, version
from tests.unit.jobmgr_services.test_with_engine import real, states
from tests.unit.wire.specs import job

__all__ = ["real"]
INITIALIZED = task_pb2.INITIALIZED


async def create(served: Served, text: str = "", **more: Any) -> peloton_pb2.EntityVersion:
    request = pb.CreateJobRequest(job_id=job_id(), spec=job(text), **more)
    answer: pb.CreateJobResponse = await served.services.CreateJob(request)
    return answer.version


async def get(served: Served) -> pb.GetJobResponse:
    answer: pb.GetJobResponse = await served.services.GetJob(pb.GetJobRequest(job_id=job_id()))
    return answer


async def goal(served: Served) -> stateless_pb2.JobState.ValueType:
    return (await get(served)).job_info.status.desired_state


async def test_a_service_from_create_to_delete(real: Served) -> None:
    seen = await create(real, opaque_data=opaque("mine"))
    assert seen.value == "1-1-1"
    with status(grpc.StatusCode.ALREADY_EXISTS):
        await create(real)
    await states(real, [INITIALIZED] * 3)
    found = await get(real)
    assert found.job_info.status.version == seen
    assert found.workflow_info.opaque_data.data == "mine"
    assert found.job_info.status.desired_state == stateless_pb2.JOB_STATE_RUNNING

    with status(grpc.StatusCode.ABORTED):
        await real.services.DeleteJob(pb.DeleteJobRequest(job_id=job_id(), version=seen))
    stop = pb.StopJobRequest(job_id=job_id(), version=seen)
    stopped = await real.services.StopJob(stop)
    assert await goal(real) == stateless_pb2.JOB_STATE_KILLED
    again = await real.services.StopJob(pb.StopJobRequest(job_id=job_id(), version=stopped.version))
    assert again.version == stopped.version
    started = await real.services.StartJob(pb.StartJobRequest(job_id=job_id(), version=stopped.version))
    assert await goal(real) == stateless_pb2.JOB_STATE_RUNNING
    assert len({seen.value, stopped.version.value, started.version.value}) == 3
    with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
        await real.services.DeleteJob(
            pb.DeleteJobRequest(job_id=job_id(), version=stopped.version, force=True)
        )
    await real.services.DeleteJob(pb.DeleteJobRequest(job_id=job_id(), version=started.version, force=True))
    assert await goal(real) == stateless_pb2.JOB_STATE_DELETED


async def test_stale_versions(real: Served) -> None:
    await create(real)
    for method in (
        "ReplaceJob",
        "PatchJob",
        "RestartJob",
        "PauseJobWorkflow",
        "ResumeJobWorkflow",
        "AbortJobWorkflow",
        "StartJob",
        "StopJob",
        "GetReplaceJobDiff",
    ):
        request = request_of(method, job_id=job_id(), version=version("1-1-0"))
        try:
            await getattr(real.services, method)(request)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.ABORTED, (method, error)
            assert error.details() == "unexpected entity version", method
            assert ("peloton-reason", "stale-version") in tuple(error.trailing_metadata() or ()), method
        else:
            raise AssertionError(f"{method} took a stale version")


async def test_workflows(real: Served) -> None:
    """Pause, resume and abort the creation; replace, patch; list what there was."""
    seen = await create(real, create_spec=stateless_pb2.CreateSpec(batch_size=1))
    for method in ("Pause", "Pause", "Resume", "Abort"):
        name = f"{method}JobWorkflow"
        answer = await getattr(real.services, name)(request_of(name, job_id=job_id(), version=seen))
        seen = answer.version
    assert (await get(real)).workflow_info.status.state == stateless_pb2.WORKFLOW_STATE_ABORTED
    for method in ("Pause", "Resume", "Abort"):
        name = f"{method}JobWorkflow"
        with status(grpc.StatusCode.INVALID_ARGUMENT):
            await getattr(real.services, name)(request_of(name, job_id=job_id(), version=seen))

    newer = job("instance_count: 4 default_spec { kill_grace_period_seconds: 3 }")
    diff = await real.services.GetReplaceJobDiff(
        pb.GetReplaceJobDiffRequest(job_id=job_id(), version=seen, spec=newer)
    )
    concerned = [*diff.instances_added, *diff.instances_updated]
    assert sorted(i for r in concerned for i in range(getattr(r, "from"), r.to + 1)) == [0, 1, 2, 3]
    replaced = await real.services.ReplaceJob(
        pb.ReplaceJobRequest(job_id=job_id(), version=seen, spec=newer, opaque_data=opaque("a"))
    )
    again = await real.services.ReplaceJob(
        pb.ReplaceJobRequest(job_id=job_id(), version=replaced.version, spec=newer, opaque_data=opaque("b"))
    )
    found = await get(real)
    assert found.job_info.status.version == again.version != replaced.version
    assert found.job_info.spec.instance_count == 4 and found.workflow_info.opaque_data.data == "b"
    patched = await real.services.PatchJob(
        pb.PatchJobRequest(
            job_id=job_id(), version=again.version, spec=job("description: 'patched'", base="")
        )
    )
    found = await get(real)
    assert found.job_info.spec.description == "patched" and found.job_info.spec.instance_count == 4
    assert found.job_info.status.version == patched.version
    with status(grpc.StatusCode.INVALID_ARGUMENT):
        await real.services.RestartJob(pb.RestartJobRequest(job_id=job_id(), version=patched.version))
    told = await real.services.ListJobWorkflows(
        pb.ListJobWorkflowsRequest(job_id=job_id(), instance_events=True)
    )
    assert [each.opaque_data.data for each in told.workflow_infos] == ["", "b", ""]
    assert told.workflow_infos[1].status.state == stateless_pb2.WORKFLOW_STATE_ABORTED


async def test_pods(real: Served) -> None:
    await create(real)
    await states(real, [INITIALIZED] * 3)
    one = peloton_pb2.PodName(value=f"{JOB}-1")
    for _ in range(2):
        await real.pods.StopPod(pods_pb.StopPodRequest(pod_name=one))
    pod = await real.pods.GetPod(pods_pb.GetPodRequest(pod_name=one))
    assert pod.current.status.desired_state == pod_pb2.POD_STATE_KILLED
    for _ in range(2):
        await real.pods.StartPod(pods_pb.StartPodRequest(pod_name=one))
    pod = await real.pods.GetPod(pods_pb.GetPodRequest(pod_name=one))
    assert pod.current.status.desired_state == pod_pb2.POD_STATE_RUNNING
    assert pod.current.status.desired_pod_id.value == f"{JOB}-1-2"
    await real.pods.RestartPod(pods_pb.RestartPodRequest(pod_name=peloton_pb2.PodName(value=f"{JOB}-2")))
    listed = await real.tasks.List(task_pb2.ListRequest(jobId=v0_job_id()))
    assert listed.result.value[2].runtime.desiredMesosTaskId.value == f"{JOB}-2-2"
    await real.pods.RefreshPod(pods_pb.RefreshPodRequest(pod_name=one))
    cached = await real.pods.GetPodCache(pods_pb.GetPodCacheRequest(pod_name=one))
    assert cached.status.pod_id == pod.current.status.pod_id

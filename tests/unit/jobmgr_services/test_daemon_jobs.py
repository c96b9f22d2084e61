"""Daemon jobs in both APIs, over the engine itself: shown with as many instances as there are."""

from __future__ import annotations

import grpc

from jobmgr.core.state.events import HostsMatched
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v0.update.svc import update_svc_pb2 as updates_pb
from peloton.api.v0.update.svc import update_svc_pb2_grpc
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pods_pb
from peloton.model.host import HostMatch
from peloton.model.states import JobType
from tests.unit.jobmgr_services.configs import job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_services import job_id as v1alpha_id
from tests.unit.jobmgr_services.test_with_engine import real, states

__all__ = ["real"]
INITIALIZED = task_pb2.INITIALIZED


def config() -> job_pb2.JobConfig:
    wire = job("type: DAEMON")
    wire.ClearField("instanceCount")
    return wire


async def create(served: Served, *hosts: str) -> None:
    """Create the job, and let these hosts match."""
    answer = await served.jobs.Create(job_pb2.CreateRequest(id=job_id(), config=config()))
    assert not answer.HasField("error"), answer
    await match(served, 1, *hosts)
    await states(served, [INITIALIZED] * len(hosts))


async def match(served: Served, version: int, *hosts: str) -> None:
    await served.engine.lanes.request(HostsMatched(JOB, version, HostMatch(frozenset(hosts))))


async def get(served: Served) -> pb.GetJobResponse:
    answer: pb.GetJobResponse = await served.services.GetJob(pb.GetJobRequest(job_id=v1alpha_id()))
    return answer


async def version(served: Served) -> peloton_pb2.EntityVersion:
    return (await get(served)).job_info.status.version


async def test_both_apis_show_the_instances_that_there_are(real: Served) -> None:
    await create(real, "a", "b")
    held = (await real.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo
    assert (held.config.type, held.config.instanceCount) == (job_pb2.DAEMON, 2)
    cached = await real.jobs.GetCache(job_pb2.GetCacheRequest(id=job_id()))
    assert cached.config.instanceCount == 2
    found = await real.jobs.Query(job_pb2.QueryRequest(spec=job_pb2.QuerySpec()))
    assert [each.instanceCount for each in found.results] == [2]
    assert [each.config.instanceCount for each in found.records] == [2]
    assert (await get(real)).job_info.spec.instance_count == 2
    summary = await real.services.GetJob(pb.GetJobRequest(job_id=v1alpha_id(), summary_only=True))
    assert summary.summary.instance_count == 2
    tasks = (await real.tasks.List(task_pb2.ListRequest(jobId=job_id()))).result.value
    assert {i: task.runtime.desiredHost for i, task in tasks.items()} == {0: "a", 1: "b"}
    pods = [each async for each in real.services.ListPods(pb.ListPodsRequest(job_id=v1alpha_id()))]
    assert len(pods[0].pods) == 2
    one = await real.pods.GetPod(pods_pb.GetPodRequest(pod_name=peloton_pb2.PodName(value=f"{JOB}-1")))
    assert one.current.status.desiredHost == "b"
    with status(grpc.StatusCode.NOT_FOUND):
        await real.pods.GetPod(pods_pb.GetPodRequest(pod_name=peloton_pb2.PodName(value=f"{JOB}-2")))
    await match(real, 1, "a", "b", "c")
    await states(real, [INITIALIZED] * 3)
    assert (await get(real)).job_info.spec.instance_count == 3


async def test_a_number_of_instances_is_refused(real: Served) -> None:
    wire = config()
    wire.instanceCount = 2
    answer = await real.jobs.Create(job_pb2.CreateRequest(id=job_id(), config=wire))
    assert "instanceCount: 2 is not 0 in a DAEMON job" in answer.error.invalidConfig.message


async def test_what_was_read_updates_the_job_in_the_v0_api(real: Served) -> None:
    await create(real, "a", "b")
    updates = update_svc_pb2_grpc.UpdateServiceStub(real.channel)
    wire = (await real.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo.config
    wire.defaultConfig.command.value = "watch closely"
    await updates.CreateUpdate(updates_pb.CreateUpdateRequest(jobId=job_id(), jobConfig=wire))
    held = (await real.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo.config
    assert (held.type, held.instanceCount) == (job_pb2.DAEMON, 2)
    assert held.defaultConfig.command.value == "watch closely"
    wire.type, wire.instanceCount = job_pb2.SERVICE, 2
    wire.ClearField("changeLog")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "the type of a job cannot change"):
        await updates.CreateUpdate(updates_pb.CreateUpdateRequest(jobId=job_id(), jobConfig=wire))


async def test_the_v1alpha_api_replaces_and_patches_it(real: Served) -> None:
    await create(real, "a", "b")
    spec = (await get(real)).job_info.spec
    spec.default_spec.containers[0].entrypoint.value = "watch closely"
    spec.default_spec.containers[0].ClearField("command")
    diff = await real.services.GetReplaceJobDiff(
        pb.GetReplaceJobDiffRequest(job_id=v1alpha_id(), version=await version(real), spec=spec)
    )
    assert [(getattr(each, "from"), each.to) for each in diff.instances_updated] == [(0, 1)]
    assert not diff.instances_added and not diff.instances_removed
    replace = pb.ReplaceJobRequest(job_id=v1alpha_id(), version=await version(real), spec=spec)
    await real.services.ReplaceJob(replace)
    info = (await get(real)).job_info
    assert info.spec.default_spec.containers[0].entrypoint.value == "watch closely"
    assert (info.spec.instance_count, info.spec.revision.version) == (2, 2)
    patch = stateless_pb2.JobSpec(description="watches")
    request = pb.PatchJobRequest(job_id=v1alpha_id(), version=await version(real), spec=patch)
    await real.services.PatchJob(request)
    info = (await get(real)).job_info
    assert (info.spec.description, info.spec.instance_count) == ("watches", 2)
    job_ = real.engine.job(JOB)
    assert job_ is not None and job_.spec.type is JobType.DAEMON
    stored = await real.engine.store.jobs.config(JOB, job_.spec.version)
    assert stored == job_.spec, "a new leader reads a daemon job"


async def test_the_v1alpha_api_refuses_what_a_daemon_job_cannot_be(real: Served) -> None:
    await create(real, "a")
    spec = (await get(real)).job_info.spec
    spec.sla.preemptible = True
    with status(grpc.StatusCode.INVALID_ARGUMENT, "sla.preemptible"):
        await real.services.ReplaceJob(
            pb.ReplaceJobRequest(job_id=v1alpha_id(), version=await version(real), spec=spec)
        )
    spec.sla.preemptible = False
    spec.instance_spec[0].kill_grace_period_seconds = 3
    with status(grpc.StatusCode.INVALID_ARGUMENT, "instance_spec[0]"):
        await real.services.ReplaceJob(
            pb.ReplaceJobRequest(job_id=v1alpha_id(), version=await version(real), spec=spec)
        )


async def test_the_v0_update_for_batch_jobs_is_refused(real: Served) -> None:
    await create(real, "a")
    answer = await real.jobs.Update(job_pb2.UpdateRequest(id=job_id(), config=config()))
    assert "only batch jobs can be updated" in answer.error.invalidConfig.message

"""JobService over the wire: what changes a job, with each refusal, its status code and its message."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.states import JobState
from peloton.model.workflow import Range, WorkflowOptions
from tests.unit.jobmgr_services.conftest import JOB, Served, status
from tests.unit.wire.specs import job

OTHER = "a0000000-0000-4000-8000-00000000000b"
CHANGES = (
    "ReplaceJob",
    "PatchJob",
    "RestartJob",
    "PauseJobWorkflow",
    "ResumeJobWorkflow",
    "AbortJobWorkflow",
    "StartJob",
    "StopJob",
    "DeleteJob",
    "GetReplaceJobDiff",
)
OF_NO_JOB = ("CreateJob", "GetJobIDFromJobName", "ListPods", "QueryJobs", "ListJobs")
"""Methods that do not name a job, or answer with a stream: their errors have tests of their own."""
READS = ("GetJob", "GetJobCache", "QueryPods", "ListJobWorkflows", "GetWorkflowEvents", "RefreshJob")


def job_id(value: str = JOB) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=value)


def version(value: str) -> peloton_pb2.EntityVersion:
    return peloton_pb2.EntityVersion(value=value)


def opaque(text: str) -> peloton_pb2.OpaqueData:
    return peloton_pb2.OpaqueData(data=text)


def request_of(method: str, **fields: Any) -> Any:
    request = getattr(pb, f"{method}Request")(**fields)
    if "spec" in request.DESCRIPTOR.fields_by_name and method in CHANGES:
        request.spec.CopyFrom(job())
    return request


async def create(served: Served, text: str = "", **more: Any) -> str:
    """Create the job; its version."""
    answer = await served.services.CreateJob(pb.CreateJobRequest(job_id=job_id(), spec=job(text), **more))
    assert answer.job_id.value == JOB
    return str(answer.version.value)


async def test_create(served: Served) -> None:
    spec = stateless_pb2.CreateSpec(
        batch_size=2, max_instance_retries=3, max_tolerable_instance_failures=4, start_paused=True
    )
    assert await create(served, create_spec=spec, opaque_data=opaque("mine")) == "1-1-1"
    (workflow,) = served.workflows.held[JOB]
    assert workflow.options == WorkflowOptions(
        batch_size=2, max_instance_attempts=3, max_failure_instances=4, start_paused=True
    )
    assert workflow.opaque_data == "mine"


async def test_create_makes_an_id(served: Served) -> None:
    one = await served.services.CreateJob(pb.CreateJobRequest(spec=job()))
    two = await served.services.CreateJob(pb.CreateJobRequest(spec=job()))
    assert one.job_id.value and two.job_id.value not in ("", one.job_id.value)


async def test_create_repeated(served: Served) -> None:
    await create(served)
    with status(grpc.StatusCode.ALREADY_EXISTS, f"job {JOB} exists already"):
        await create(served)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instance_count: 100001", "instance_count: 100001 is not a number from 1 to 100000"),
        ("respool_id { value: 'root' }", "respool_id: 'root' is not the id of a leaf of the pool tree"),
        ("respool_id { value: 'x' }", "respool_id: 'x' is not the id of a resource pool that exists"),
        ("sla { revocable: true }", "sla.revocable: True is not allowed unless sla.preemptible"),
        ("default_spec { restart_policy {} constraint {} }", "default_spec.constraint.type: 0 is not"),
        (
            "default_spec { preemption_policy { kill_on_preempt: true } }",
            "preemption_policy.kill_on_preempt: True",
        ),
        ("default_spec { init_containers {} }", "default_spec.init_containers: '1 containers' is not run"),
        ("default_spec { volume { container_path: 'd' } }", "default_spec.volume.size_mb: 0 is not a size"),
        (
            "default_spec { host_ports { value: 1 } }",
            "default_spec.host_ports[0].name: '' is not a name",
        ),
        (
            "default_spec { host_ports { name: 'p' type: PORT_TYPE_STATIC } }",
            "default_spec.host_ports[0].value: 0 is not the number",
        ),
        ("default_spec { volumes { name: 'v' } }", "default_spec.volumes[0].type: 0 is not VOLUME_TYPE"),
        ("labels { value: 'x' }", "labels[1].key: '' is not a key"),
        (
            "instance_spec { key: 7 value {} }",
            "instance_spec[7]: 7 is not an instance id: below instance_count, which is 3",
        ),
        (
            "instance_spec { key: 1 value { controller: true } }",
            "instance_spec[1].controller: True is not false: only instance 0 may be a controller",
        ),
        (
            "instance_spec { key: 1 value { containers { resource { cpu_limit: -1 } } } }",
            "instance_spec[1].containers[0].resource.cpu_limit: -1.0 is not a number from 0",
        ),
        (
            "instance_spec { key: 1 value { containers { liveness_check { enabled: true } } } }",
            "instance_spec[1].containers[0].liveness_check.type: is missing: give COMMAND or HTTP",
        ),
    ],
)
async def test_create_refused(served: Served, text: str, message: str) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, message):
        await create(served, text)
    with status(grpc.StatusCode.NOT_FOUND):
        await served.services.GetJob(pb.GetJobRequest(job_id=job_id()))


async def test_create_refused_outside_the_spec(served: Served) -> None:
    call = served.services.CreateJob
    with status(grpc.StatusCode.INVALID_ARGUMENT, "job_id: 'x' is not a UUID"):
        await call(pb.CreateJobRequest(job_id=job_id("x"), spec=job()))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "secrets: '1 secret' is not taken by this server"):
        await call(pb.CreateJobRequest(spec=job(), secrets=[peloton_pb2.Secret(path="/s")]))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "instance_count: 0 is not"):
        await call(pb.CreateJobRequest())
    spec = job()
    spec.default_spec.mesos_spec.type = 9  # type: ignore[assignment]
    with status(grpc.StatusCode.INVALID_ARGUMENT, "default_spec.mesos_spec.type: 9 is not one of"):
        await call(pb.CreateJobRequest(spec=spec))
    bare = job()
    bare.default_spec.containers[0].ClearField("entrypoint")
    with status(
        grpc.StatusCode.INVALID_ARGUMENT, "default_spec.containers[0].command: is missing: give a command"
    ):
        await call(pb.CreateJobRequest(spec=bare))


@pytest.mark.parametrize("method", CHANGES)
async def test_stale_and_missing_versions(served: Served, method: str) -> None:
    await create(served)
    call = getattr(served.services, method)
    for stale in ("1-1-0", "2-1-1", "1-2-1"):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call(request_of(method, job_id=job_id(), version=version(stale)))
        assert failure.value.code() is grpc.StatusCode.ABORTED
        assert failure.value.details() == "unexpected entity version"
    for wrong in ("", "1", "a-b-c"):
        with status(grpc.StatusCode.INVALID_ARGUMENT, f"version.value: {wrong!r} is not a version"):
            await call(request_of(method, job_id=job_id(), version=version(wrong)))


def test_all_methods_are_tried() -> None:
    known = pb.DESCRIPTOR.services_by_name["JobService"].methods_by_name
    assert {*CHANGES, *READS, *OF_NO_JOB} == set(known)


@pytest.mark.parametrize("method", (*CHANGES, *READS))
async def test_unknown_jobs(served: Served, method: str) -> None:
    for stranger in ("", "no-uuid", OTHER):
        with status(grpc.StatusCode.NOT_FOUND, "job not found"):
            await getattr(served.services, method)(request_of(method, job_id=job_id(stranger)))


BATCH_REFUSES = [method for method in CHANGES if method not in ("StopJob", "DeleteJob")]


@pytest.mark.parametrize("method", BATCH_REFUSES)
async def test_batch_jobs_have_no_workflows(with_job: Served, method: str) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, "is not the id of a service: it is a batch job"):
        await getattr(with_job.services, method)(
            request_of(method, job_id=job_id(), version=version("1-1-0"))
        )


async def test_replace(served: Served) -> None:
    seen = await create(served)
    update = stateless_pb2.UpdateSpec(
        batch_size=1,
        rollback_on_failure=True,
        max_instance_retries=2,
        max_tolerable_instance_failures=3,
        start_paused=True,
        in_place=True,
        start_pods=True,
    )
    request = pb.ReplaceJobRequest(
        job_id=job_id(),
        version=version(seen),
        spec=job("instance_count: 5"),
        update_spec=update,
        opaque_data=opaque("second"),
    )
    request.spec.ClearField("respool_id")
    answer = await served.services.ReplaceJob(request)
    assert answer.version.value == "2-1-2"
    workflow = served.workflows.held[JOB][-1]
    assert workflow.options == WorkflowOptions(
        batch_size=1,
        rollback_on_failure=True,
        max_instance_attempts=2,
        max_failure_instances=3,
        start_paused=True,
        in_place=True,
        start_tasks=True,
    )
    got = await served.services.GetJob(pb.GetJobRequest(job_id=job_id()))
    assert got.job_info.spec.instance_count == 5 and got.job_info.spec.respool_id == job().respool_id
    assert got.workflow_info.update_spec == update
    assert got.workflow_info.opaque_data.data == "second"
    with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
        await served.services.ReplaceJob(request)


async def test_replace_refused(served: Served) -> None:
    seen = version(await create(served))
    call = served.services.ReplaceJob
    moved = job(f"respool_id {{ value: '{OTHER}' }}")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "a job stays in its pool"):
        await call(pb.ReplaceJobRequest(job_id=job_id(), version=seen, spec=moved))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "instance_count: 0 is not a number from 1"):
        await call(pb.ReplaceJobRequest(job_id=job_id(), version=seen))
    secret = [peloton_pb2.Secret(path="/s")]
    with status(grpc.StatusCode.INVALID_ARGUMENT, "secrets"):
        await call(pb.ReplaceJobRequest(job_id=job_id(), version=seen, spec=job(), secrets=secret))
    assert len(served.workflows.held[JOB]) == 1


async def test_patch(served: Served) -> None:
    seen = await create(served, "instance_spec { key: 1 value { labels { key: 'a' value: '1' } } }")
    patch = job(
        """
        instance_count: 4 sla { priority: 5 }
        default_spec { containers { entrypoint { value: "serve2" } resource { mem_limit_mb: 64 } } }
        instance_spec { key: 1 value { kill_grace_period_seconds: 3 } }
        """,
        base="",
    )
    answer = await served.services.PatchJob(
        pb.PatchJobRequest(job_id=job_id(), version=version(seen), spec=patch)
    )
    assert answer.version.value == "2-1-2"
    spec = (await served.services.GetJob(pb.GetJobRequest(job_id=job_id()))).job_info.spec
    assert (spec.name, spec.instance_count, spec.sla.priority) == ("web", 4, 5)
    main = spec.default_spec.containers[0]
    assert (main.name, main.command.value) == ("main", "serve2")
    assert (main.resource.cpu_limit, main.resource.mem_limit_mb) == (0.1, 64)
    assert [v.name for v in main.environment] == ["MODE"] and spec.default_spec.mesos_spec.shell
    one = spec.instance_spec[1]
    assert one.kill_grace_period_seconds == 3 and one.labels[0].key == "a"
    wrong = job("default_spec { init_containers {} }", base="")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "default_spec.init_containers"):
        await served.services.PatchJob(
            pb.PatchJobRequest(job_id=job_id(), version=version("2-1-2"), spec=wrong)
        )


async def test_diff(served: Served) -> None:
    seen = await create(served)
    request = pb.GetReplaceJobDiffRequest(
        job_id=job_id(), version=version(seen), spec=job("instance_count: 5")
    )
    for _ in range(2):
        answer = await served.services.GetReplaceJobDiff(request)
        assert [(getattr(r, "from"), r.to) for r in answer.instances_added] == [(3, 4)]
        assert [(getattr(r, "from"), r.to) for r in answer.instances_updated] == [(0, 0)]
        assert [(getattr(r, "from"), r.to) for r in answer.instances_unchanged] == [(1, 2)]
        assert not answer.instances_removed


def ranges(*pairs: tuple[int, int]) -> list[pod_pb2.InstanceIDRange]:
    return [pod_pb2.InstanceIDRange(**{"from": first, "to": end}) for first, end in pairs]


async def test_restart(served: Served) -> None:
    seen = await create(served)
    spec = stateless_pb2.RestartSpec(batch_size=1, ranges=ranges((0, 1), (2, 3)), in_place=True)
    answer = await served.services.RestartJob(
        pb.RestartJobRequest(
            job_id=job_id(), version=version(seen), restart_spec=spec, opaque_data=opaque("r")
        )
    )
    assert answer.version.value == "1-1-2"
    workflow = served.workflows.held[JOB][-1]
    assert workflow.ranges == (Range(0, 1), Range(2, 3))
    assert workflow.options == WorkflowOptions(batch_size=1, in_place=True)
    info = (await served.services.GetJob(pb.GetJobRequest(job_id=job_id()))).workflow_info
    assert info.restart_spec == spec and info.status.type == stateless_pb2.WORKFLOW_TYPE_RESTART
    everything = await served.services.RestartJob(
        pb.RestartJobRequest(job_id=job_id(), version=version("1-1-2"))
    )
    assert everything.version.value == "1-1-3" and served.workflows.held[JOB][-1].ranges == ()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(1, 9)], "range: '1:9' is not within the job's instances, 0 to 2"),
        ([(9, 2**31 - 1)], "range: '9:' is not within the job's instances, 0 to 2"),
        ([(1, 1)], "is not ranges that hold some"),
    ],
)
async def test_restart_refused(served: Served, pairs: list[tuple[int, int]], message: str) -> None:
    seen = await create(served)
    spec = stateless_pb2.RestartSpec(ranges=ranges(*pairs))
    with status(grpc.StatusCode.INVALID_ARGUMENT, message):
        await served.services.RestartJob(
            pb.RestartJobRequest(job_id=job_id(), version=version(seen), restart_spec=spec)
        )


async def test_pause_resume_and_abort(served: Served) -> None:
    seen = await create(served)
    states = []
    for method, data in (("Pause", "p"), ("Resume", ""), ("Abort", "a")):
        name = f"{method}JobWorkflow"
        request = request_of(name, job_id=job_id(), version=version(seen), opaque_data=opaque(data))
        seen = (await getattr(served.services, name)(request)).version.value
        info = (await served.services.GetJob(pb.GetJobRequest(job_id=job_id()))).workflow_info
        states.append((stateless_pb2.WorkflowState.Name(info.status.state), info.opaque_data.data))
    assert seen == "1-1-4"
    assert states == [
        ("WORKFLOW_STATE_PAUSED", "p"),
        ("WORKFLOW_STATE_ROLLING_FORWARD", "p"),
        ("WORKFLOW_STATE_ABORTED", "a"),
    ]
    for method in ("Pause", "Resume", "Abort"):
        name = f"{method}JobWorkflow"
        with status(grpc.StatusCode.INVALID_ARGUMENT, "a workflow that runs"):
            await getattr(served.services, name)(request_of(name, job_id=job_id(), version=version(seen)))


async def test_stop_start_and_delete(served: Served) -> None:
    seen = version(await create(served))
    stopped = await served.services.StopJob(pb.StopJobRequest(job_id=job_id(), version=seen))
    assert stopped.version.value == "1-2-1"
    again = await served.services.StopJob(pb.StopJobRequest(job_id=job_id(), version=stopped.version))
    assert again.version == stopped.version
    delete = pb.DeleteJobRequest(job_id=job_id(), version=stopped.version)
    with status(grpc.StatusCode.ABORTED, "not KILLED"):
        await served.services.DeleteJob(delete)
    started = await served.services.StartJob(pb.StartJobRequest(job_id=job_id(), version=stopped.version))
    assert started.version.value == "1-3-1"
    force = pb.DeleteJobRequest(job_id=job_id(), version=started.version, force=True)
    await served.services.DeleteJob(force)
    assert served.workflows.asked == [("delete", False), ("delete", True)]


async def test_stop_and_delete_batch_jobs(with_job: Served) -> None:
    call, seen = with_job.services, version("1-1-0")
    for method in ("StopJob", "DeleteJob"):
        with status(grpc.StatusCode.ABORTED, "unexpected entity version"):
            await getattr(call, method)(request_of(method, job_id=job_id(), version=version("1-1-9")))
    answer = await call.StopJob(pb.StopJobRequest(job_id=job_id(), version=seen))
    assert answer.version == seen and with_job.engine.requests == [("stop", None)]
    with status(grpc.StatusCode.ABORTED, "Job is not in a terminal state: PENDING"):
        await call.DeleteJob(pb.DeleteJobRequest(job_id=job_id(), version=seen))
    await with_job.engine.end(JOB, state=JobState.KILLED)
    await call.DeleteJob(pb.DeleteJobRequest(job_id=job_id(), version=seen))
    with status(grpc.StatusCode.NOT_FOUND, "job not found"):
        await call.DeleteJob(pb.DeleteJobRequest(job_id=job_id(), version=seen))


async def test_v0_sees_the_job(served: Served) -> None:
    await create(served)
    answer = await served.jobs.Get(job_pb2.GetRequest(id=v0_peloton.JobID(value=JOB)))
    config = answer.jobInfo.config
    assert (config.name, config.type, config.instanceCount) == ("web", job_pb2.SERVICE, 3)
    assert config.defaultConfig.command.value == "serve --port 80"
    found = await served.jobs.Query(job_pb2.QueryRequest(spec=job_pb2.QuerySpec(keywords=["SERVE"])))
    assert [each.id.value for each in found.results] == [JOB]
    assert found.records[0].config.defaultConfig.command.value == "serve --port 80"

"""v0 JobManager over the wire (docs/behaviour/jobs.md, Operations of the v0 API)."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import NotFound
from peloton.model.ids import is_uuid
from peloton.model.states import JobState
from tests.unit.jobmgr_services.configs import PARENT, POOL, job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status

OTHER = "a0000000-0000-4000-8000-00000000000b"
STRANGERS = ["", "no-uuid", OTHER]


async def test_create_and_get(served: Served) -> None:
    created = await served.create("defaultConfig { restartPolicy { maxFailures: 1000 } }")
    assert created.jobId.value == JOB and not created.HasField("error")
    info = (await served.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo
    assert info.id.value == JOB
    assert info.config.name == "hello"
    assert info.config.defaultConfig.restartPolicy.maxFailures == 100
    assert info.config.changeLog.version == info.runtime.configurationVersion == 1
    assert info.runtime.creationTime.endswith("Z")
    assert (await served.engine.store.jobs.config(JOB, 1)).instance_count == 3


async def test_create_makes_an_id(served: Served) -> None:
    first, second = await served.create(job=""), await served.create(job="")
    assert is_uuid(first.jobId.value) and first.jobId.value != second.jobId.value


async def test_create_twice(with_job: Served) -> None:
    again = await with_job.create()
    assert again.error.alreadyExists.id.value == JOB and not again.HasField("jobId")
    assert JOB in again.error.alreadyExists.message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("instanceCount: 100001", "instanceCount: 100001"),
        (f'respoolID {{ value: "{PARENT}" }}', "respoolID"),
        ('respoolID { value: "root" }', "the root takes no jobs"),
        (f'respoolID {{ value: "{OTHER}" }}', "exists"),
        ("type: DAEMON", "0 in a DAEMON job, whose hosts decide"),
        ("defaultConfig { resource { cpuLimit: -1 } }", "defaultConfig.resource.cpuLimit: -1.0"),
        ("defaultConfig { container {} }", "defaultConfig.container.type"),
    ],
)
async def test_create_refuses_and_stores_nothing(served: Served, text: str, part: str) -> None:
    request = job_pb2.CreateRequest(id=job_id(), config=job(text))
    raw = served.channel.unary_unary(
        "/peloton.api.v0.job.JobManager/Create", response_deserializer=job_pb2.CreateResponse.FromString
    )
    answer = await raw(request.SerializePartialToString())
    assert part in answer.error.invalidConfig.message
    with pytest.raises(NotFound):
        await served.engine.store.jobs.runtime(JOB)


async def test_create_without_pool_or_config(served: Served) -> None:
    config = job()
    config.ClearField("respoolID")
    answer = await served.jobs.Create(job_pb2.CreateRequest(config=config))
    assert "respoolID" in answer.error.invalidConfig.message
    answer = await served.jobs.Create(job_pb2.CreateRequest())
    assert "instanceCount" in answer.error.invalidConfig.message


async def test_create_refuses_bad_id_and_secrets(served: Served) -> None:
    bad = await served.create(job="x")
    assert bad.error.invalidJobId.id.value == "x" and "UUID" in bad.error.invalidJobId.message
    request = job_pb2.CreateRequest(config=job())
    request.secrets.add(path="/tmp/s").value.data = b"hidden"
    message = (await served.jobs.Create(request)).error.invalidConfig.message
    assert "secrets are not enabled" in message and "hidden" not in message


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_unknown_jobs(served: Served, stranger: str) -> None:
    wire, jobs = job_id(stranger), served.jobs
    assert (await jobs.Get(job_pb2.GetRequest(id=wire))).error.notFound.id.value == stranger
    error = (await jobs.Update(job_pb2.UpdateRequest(id=wire, config=job()))).error
    assert error.HasField("invalidJobId" if stranger == "no-uuid" else "jobNotFound")
    with status(grpc.StatusCode.NOT_FOUND, "job not found"):
        await jobs.Delete(job_pb2.DeleteRequest(id=wire))
    with status(grpc.StatusCode.NOT_FOUND):
        await jobs.Stop(job_pb2.StopRequest(id=wire))
    with status(grpc.StatusCode.NOT_FOUND):
        await jobs.Refresh(job_pb2.RefreshRequest(id=wire))
    with status(grpc.StatusCode.NOT_FOUND):
        await jobs.GetCache(job_pb2.GetCacheRequest(id=wire))


async def test_delete(with_job: Served) -> None:
    request = job_pb2.DeleteRequest(id=job_id())
    with status(grpc.StatusCode.INTERNAL, "Job is not in a terminal state: PENDING"):
        await with_job.jobs.Delete(request)
    await with_job.engine.end(JOB, state=JobState.SUCCEEDED)
    assert not (await with_job.jobs.Delete(request)).HasField("error")
    assert (await with_job.jobs.Get(job_pb2.GetRequest(id=job_id()))).error.HasField("notFound")


async def test_update_adds_instances(with_job: Served) -> None:
    more = job("instanceCount: 5")
    more.ClearField("respoolID")
    request = job_pb2.UpdateRequest(id=job_id(), config=more)
    answer = await with_job.jobs.Update(request)
    assert not answer.HasField("error") and answer.message == "added 2 instances"
    info = (await with_job.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo
    assert info.config.instanceCount == 5 and info.config.changeLog.version == 2
    assert info.config.respoolID.value == POOL
    assert (await with_job.jobs.Update(request)).message == "nothing to change"


async def test_a_jobs_owner_is_its_owning_team(served: Served) -> None:
    await served.create('owner: "somebody" owningTeam: "crawlers"')

    async def query(owner: str) -> list[str]:
        request = job_pb2.QueryRequest(spec=job_pb2.QuerySpec(owner=owner))
        return [found.owner for found in (await served.jobs.Query(request)).results]

    assert await query("crawlers") == ["crawlers"]
    assert await query("somebody") == []


async def test_concurrent_updates(with_job: Served) -> None:
    request = job_pb2.UpdateRequest(id=job_id(), config=job("instanceCount: 5"))
    with_job.engine.racing = 2
    assert not (await with_job.jobs.Update(request)).HasField("error")
    with_job.engine.racing = 100
    request.config.instanceCount = 6
    with status(grpc.StatusCode.ABORTED):
        await with_job.jobs.Update(request)


async def test_update_refuses(with_job: Served) -> None:
    async def refusal(text: str) -> str:
        answer = await with_job.jobs.Update(job_pb2.UpdateRequest(id=job_id(), config=job(text)))
        return str(answer.error.invalidConfig.message)

    assert "name" in await refusal('name: "other"')
    assert "cannot shrink" in await refusal("instanceCount: 2")
    cached = with_job.engine.held[JOB]
    cached.runtime = replace(cached.runtime, goal=JobState.KILLED)
    assert "being stopped" in await refusal("instanceCount: 5")
    await with_job.engine.end(JOB, state=JobState.KILLED)
    assert "has ended (KILLED)" in await refusal("instanceCount: 5")


@pytest.mark.parametrize(
    ("ranges", "requested"),
    [
        ([], [("stop", None)]),
        ([(0, 3)], [("stop", None)]),
        ([(0, 1), (1, 2**31 - 1)], [("stop", None)]),
        ([(2, 3), (0, 1)], [("stop", [0, 2])]),
        ([(1, 1)], []),
    ],
)
async def test_stop(with_job: Served, ranges: list[tuple[int, int]], requested: list[object]) -> None:
    request = job_pb2.StopRequest(id=job_id(), resourceVersion=1)
    request.ranges.extend(task_pb2.InstanceRange(**{"from": a, "to": b}) for a, b in ranges)
    assert (await with_job.jobs.Stop(request)).resourceVersion == 1
    assert with_job.engine.requests == requested


async def test_stop_refuses(with_job: Served) -> None:
    with status(grpc.StatusCode.ABORTED, "resourceVersion 7 is stale"):
        await with_job.jobs.Stop(job_pb2.StopRequest(id=job_id(), resourceVersion=7))
    ranges = [task_pb2.InstanceRange(**{"from": 0, "to": 4})]
    with status(grpc.StatusCode.INVALID_ARGUMENT, "0 to 2"):
        await with_job.jobs.Stop(job_pb2.StopRequest(id=job_id(), ranges=ranges))
    batches = job_pb2.StopConfig(batchSize=1)
    with status(grpc.StatusCode.INVALID_ARGUMENT, "only services are changed by batches"):
        await with_job.jobs.Stop(job_pb2.StopRequest(id=job_id(), stopConfig=batches))
    assert with_job.engine.requests == []


async def test_refresh_cache_and_active_jobs(with_job: Served) -> None:
    await with_job.jobs.Refresh(job_pb2.RefreshRequest(id=job_id()))
    assert with_job.engine.requests == [("refresh",)]
    cache = await with_job.jobs.GetCache(job_pb2.GetCacheRequest(id=job_id()))
    assert cache.config.name == "hello" and cache.runtime.state == job_pb2.PENDING
    active = await with_job.jobs.GetActiveJobs(job_pb2.GetActiveJobsRequest())
    assert [each.value for each in active.ids] == [JOB]
    await with_job.engine.end(JOB, state=JobState.SUCCEEDED)
    assert not (await with_job.jobs.GetActiveJobs(job_pb2.GetActiveJobsRequest())).ids


@pytest.mark.parametrize("name", ["peloton.api.v0.job.JobManager", "peloton.api.job.JobManager"])
async def test_both_names_answer(with_job: Served, name: str) -> None:
    call = with_job.channel.unary_unary(
        f"/{name}/Get",
        request_serializer=job_pb2.GetRequest.SerializeToString,
        response_deserializer=job_pb2.GetResponse.FromString,
    )
    assert (await call(job_pb2.GetRequest(id=job_id()))).jobInfo.config.name == "hello"


async def test_bad_bytes_and_unknown_methods(with_job: Served) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, "no such message"):
        await with_job.channel.unary_unary("/peloton.api.v0.job.JobManager/Create")(b"\xff\xff\xff")
    with status(grpc.StatusCode.UNIMPLEMENTED):
        await with_job.channel.unary_unary("/peloton.api.v0.job.JobManager/Vanish")(b"")
    assert (await with_job.jobs.Get(job_pb2.GetRequest(id=job_id()))).HasField("jobInfo")

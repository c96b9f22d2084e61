"""GetUsage: what running tasks use, as their agents tell it; and what is not known."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import grpc
import pytest

from jobmgr.services.private import usage as service
from peloton.api.v1alpha import peloton_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import Unavailable
from peloton.identity.principal import EVERYTHING, Kind, Principal, Scope, enter
from peloton.mesos.agent_usage import usages
from peloton.model.pool import pool_path
from peloton.model.states import TaskState
from peloton.model.usage import BYTES_PER_MB, Reading
from peloton.private.jobmgr.usage import usage_pb2, usage_pb2_grpc
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.fakes import task
from tests.unit.jobmgr_services.test_sandbox import Agent, agent, known

__all__ = ["agent"]
RUN = f"{JOB}-0-2"
TOLD = {
    "timestamp": 150.0,
    "cpus_user_time_secs": 20.0,
    "cpus_system_time_secs": 5.0,
    "cpus_limit": 0.5,
    "cpus_throttled_time_secs": 3.0,
    "mem_rss_bytes": 100,
    "mem_peak_bytes": 300,
    "mem_limit_bytes": 400,
    "processes": 2,
}


def container(run: str, **told: Any) -> dict[str, Any]:
    return {"executor_id": run, "statistics": {**TOLD, **told}}


async def asked(served: Served, *instances: int) -> usage_pb2.GetUsageResponse:
    stub = usage_pb2_grpc.UsageServiceStub(served.channel)
    job = peloton_pb2.JobID(value=JOB)
    request = usage_pb2.GetUsageRequest(job_id=job, instances=instances)
    answer: usage_pb2.GetUsageResponse = await stub.GetUsage(request)
    return answer


@pytest.fixture
async def running(with_job: Served) -> Served:
    """Instances 0 and 2 run on one agent; instance 1 waits."""
    on = {"state": TaskState.RUNNING, "host": "h1", "agent_id": "S1", "start_time": 100 * NANOSECONDS}
    await with_job.engine.put(JOB, {0: task(run=2, desired_run=2, **on), 1: task(), 2: task(**on)})
    return with_job


async def test_what_running_instances_use(running: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(running, port)
    listed = [container(RUN), container(f"{JOB}-2-1", mem_peak_bytes=0), {"executor_id": "new"}]
    held.answers["/slave(1)/containers"] = (200, json.dumps(listed).encode())
    answer = await asked(running)
    assert (answer.running, [each.instance for each in answer.usages], len(answer.unread)) == (2, [0, 2], 0)
    assert answer.usages[0] == usage_pb2.InstanceUsage(
        instance=0,
        run=RUN,
        host="h1",
        cpu_seconds=25.0,
        cpu_mean=0.5,
        cpu_limit=0.5,
        throttled_seconds=3.0,
        memory_bytes=100,
        memory_peak_bytes=300,
        memory_limit_bytes=400,
        processes=2,
    )
    assert answer.usages[1].memory_peak_bytes == 0
    assert held.requests == ["/slave(1)/containers"]
    answer = await asked(running, 2, 1)
    assert (answer.running, [each.instance for each in answer.usages]) == (1, [2])


async def test_a_run_that_the_agent_does_not_list_is_counted_only(
    running: Served, agent: tuple[Agent, int]
) -> None:
    held, port = agent
    known(running, port)
    held.answers["/slave(1)/containers"] = (200, b"[]")
    answer = await asked(running)
    assert (answer.running, len(answer.usages), len(answer.unread)) == (2, 0, 0)


async def test_an_agent_that_cannot_be_asked_is_named(running: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(running, port)
    held.answers["/slave(1)/containers"] = (503, b"")
    (unread,) = (await asked(running)).unread
    assert unread.host == "h1" and "answered 503" in unread.reason
    known(running, port, "S2")
    (unread,) = (await asked(running)).unread
    assert unread.reason == "its agent S1 is gone"


async def test_one_that_hangs_does_not_hold_up_the_answer(
    running: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LONGEST_SECONDS", 0.01)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # up to the end that the caller makes
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        known(running, server.sockets[0].getsockname()[1])
        (unread,) = (await asked(running)).unread
        assert unread.reason.startswith("no answer within")


async def test_hosts_beyond_the_bound_are_named(
    running: Served, agent: tuple[Agent, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, port = agent
    known(running, port)
    held.answers["/slave(1)/containers"] = (200, json.dumps([container(RUN)]).encode())
    monkeypatch.setattr(service, "MOST_HOSTS", 0)
    answer = await asked(running)
    assert [each.host for each in answer.unread] == ["h1"] and not held.requests
    assert "at most 0 hosts" in answer.unread[0].reason


async def test_what_an_instance_has_used_over_time(running: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(running, port)
    held.answers["/slave(1)/containers"] = (200, json.dumps([container(RUN)]).encode())
    job = running.engine.job(JOB)
    assert job is not None
    start = job.tasks[0].start_time
    for seconds, cpu in ((10, 1), (20, 6)):
        job.take_reading(
            0, 2, Reading(start + seconds * NANOSECONDS, cpu * NANOSECONDS, 300 * BYTES_PER_MB, 0)
        )
    stub = usage_pb2_grpc.UsageServiceStub(running.channel)
    request = usage_pb2.GetUsageRequest(instances=[0], with_course=True)
    request.job_id.value = JOB
    (usage,) = (await stub.GetUsage(request)).usages
    asked = job.task_spec(0).resources
    assert usage.course_begin == pytest.approx(start / NANOSECONDS)
    assert [(each.until - usage.course_begin, each.used_cores) for each in usage.course] == [
        (pytest.approx(10), pytest.approx(0.1)),
        (pytest.approx(20), pytest.approx(0.5)),
    ]
    assert usage.course[0].held_mb == asked.memory / 1000 and usage.course[0].used_mb == 300
    with pytest.raises(grpc.aio.AioRpcError, match="for one instance only"):
        await stub.GetUsage(usage_pb2.GetUsageRequest(job_id=request.job_id, with_course=True))


async def test_what_active_jobs_use(running: Served) -> None:
    job = running.engine.job(JOB)
    assert job is not None
    stub = usage_pb2_grpc.UsageServiceStub(running.channel)
    assert not (await stub.ListUsed(usage_pb2.ListUsedRequest())).jobs
    start = job.tasks[0].start_time
    for seconds, cpu, memory in ((10, 1, 300), (20, 6, 100)):
        reading = Reading(start + seconds * NANOSECONDS, cpu * NANOSECONDS, memory * BYTES_PER_MB, 0)
        job.take_reading(0, 2, reading)
    (used,) = (await stub.ListUsed(usage_pb2.ListUsedRequest())).jobs
    assert (used.job_id, used.pool_id, used.name) == (JOB, job.spec.pool_id, job.spec.name)
    assert (used.cores, used.memory_bytes, used.runs) == (pytest.approx(0.5), 100 * BYTES_PER_MB, 1)
    assert used.memory_peak_mb == 300
    assert used.memory_asked_mb == job.task_spec(0).resources.memory / 1000


async def test_what_agents_told_last_of_instances(running: Served) -> None:
    job = running.engine.job(JOB)
    assert job is not None
    stub = usage_pb2_grpc.UsageServiceStub(running.channel)
    request = usage_pb2.GetUsageRequest(told_last=True)
    request.job_id.value = JOB
    assert not (await stub.GetUsage(request)).usages
    start = job.tasks[0].start_time
    for seconds, cpu, memory in ((10, 1, 300), (20, 6, 100)):
        reading = Reading(start + seconds * NANOSECONDS, cpu * NANOSECONDS, memory * BYTES_PER_MB, 0)
        job.take_reading(0, 2, reading)
    (told,) = (await stub.GetUsage(request)).usages
    asked = job.task_spec(0).resources
    assert (told.instance, told.run, told.cores) == (0, f"{JOB}-0-2", pytest.approx(0.5))
    assert told.told_at == pytest.approx(start / NANOSECONDS + 20)
    assert (told.memory_bytes, told.memory_peak_bytes) == (100 * BYTES_PER_MB, 300 * BYTES_PER_MB)
    assert (told.cpu_limit, told.memory_limit_bytes) == (asked.cpu / 1000, asked.memory * BYTES_PER_MB / 1000)
    request.instances.append(1)
    assert not (await stub.GetUsage(request)).usages


async def test_instances_and_jobs_that_are_not_there(running: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="instances of the job, which has 3"):
        await asked(running, 3)
    stub = usage_pb2_grpc.UsageServiceStub(running.channel)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.GetUsage(usage_pb2.GetUsageRequest())
    assert refused.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)


@pytest.mark.parametrize(
    "listing",
    [
        {},
        [1],
        [{"statistics": {}}],
        [container(RUN, mem_rss_bytes=-1)],
        [container(RUN, cpus_limit="x")],
        [container(RUN, cpus_user_time_secs=float("inf"))],
        [container(RUN, cpus_user_time_secs=float("nan"))],
    ],
)
def test_other_forms_are_refused(listing: Any) -> None:
    if listing == {}:
        assert usages(listing, "a:1") == {}
        return
    with pytest.raises(Unavailable, match="agent a:1 lists containers of unknown form"):
        usages(listing, "a:1")


async def test_losses_of_pools_whose_jobs_the_caller_may_read(with_job: Served) -> None:
    store = with_job.engine.store
    runtime = await store.jobs.runtime(JOB)
    await store.write_all(
        JOB, {}, (), replace(runtime, resource_usage={"lost": 12.5}, revision=runtime.revision + 1)
    )
    pool = (await store.jobs.config(JOB, 1)).pool_id
    asker = service.UsageService(with_job.engine, lambda _: None, None)  # type: ignore[arg-type, return-value]

    async def told(*grant: Scope) -> dict[str, float]:
        enter(Principal("ann", Kind.USER), grant)
        answer = await asker.ListLosses(usage_pb2.ListLossesRequest(), None)
        return {each.pool_id.value: each.seconds for each in answer.losses}

    path = pool_path(pool, await store.pools.all())
    assert await told(*EVERYTHING) == {pool: 12.5}
    assert await told(Scope((path,))) == {pool: 12.5}
    assert await told(Scope(("/elsewhere",))) == await told(Scope(own=True)) == {}

"""v0 TaskManager over the wire (docs/behaviour/tasks.md, Operations on tasks)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf import text_format

from jobmgr.core.state.cache import PendingReason
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.states import JobState, TaskState
from peloton.model.task import PodEvent
from peloton.wire.job import job_spec
from tests.unit.jobmgr_services.configs import job
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.fakes import NOW, task

STRANGERS = ["", "no-uuid", "a0000000-0000-4000-8000-00000000000b"]


def ranges(*pairs: tuple[int, int]) -> list[task_pb2.InstanceRange]:
    return [task_pb2.InstanceRange(**{"from": first, "to": end}) for first, end in pairs]


def event(run: int, state: TaskState, at: int, **more: Any) -> PodEvent:
    return PodEvent(JOB, 0, run, state, TaskState.SUCCEEDED, NOW + at, 1, 1, **more)


HISTORY = [
    event(1, TaskState.RUNNING, 1, hostname="h1", agent_id="S1"),
    event(1, TaskState.FAILED, 2, hostname="h1", agent_id="S1", message="Command exited with status 1"),
    event(2, TaskState.PENDING, 3, previous_run=1),
]


@pytest.fixture
async def three(with_job: Served) -> Served:
    """Instance 0 waits for its second run, 1 runs, 2 has no row yet; 0's history is stored."""
    engine = with_job.engine
    await engine.put(
        JOB,
        {
            0: task(run=2, desired_run=2, previous_run=1),
            1: task(state=TaskState.RUNNING, host="h2", agent_id="S2", created_at=NOW + 1),
        },
    )
    engine.held[JOB].pending_reasons[0] = PendingReason(
        2, TaskState.PENDING, "pool /teams/batch: cpu 1 over its limit"
    )
    await engine.store.write_all(JOB, {}, HISTORY)
    return with_job


async def ended(served: Served) -> None:
    await served.engine.end(JOB, state=JobState.FAILED)


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_unknown_jobs(served: Served, stranger: str) -> None:
    wire, tasks = job_id(stranger), served.tasks
    assert (await tasks.Get(task_pb2.GetRequest(jobId=wire))).notFound.id.value == stranger
    assert (await tasks.List(task_pb2.ListRequest(jobId=wire))).HasField("notFound")
    assert (await tasks.Start(task_pb2.StartRequest(jobId=wire))).error.HasField("notFound")
    assert (await tasks.Stop(task_pb2.StopRequest(jobId=wire))).error.HasField("notFound")
    assert (await tasks.Restart(task_pb2.RestartRequest(jobId=wire))).HasField("notFound")
    assert (await tasks.Query(task_pb2.QueryRequest(jobId=wire))).error.HasField("notFound")
    assert (await tasks.BrowseSandbox(task_pb2.BrowseSandboxRequest(jobId=wire))).error.HasField("notFound")
    with status(grpc.StatusCode.NOT_FOUND):
        await tasks.Refresh(task_pb2.RefreshRequest(jobId=wire))
    with status(grpc.StatusCode.NOT_FOUND):
        await tasks.GetCache(task_pb2.GetCacheRequest(jobId=wire))
    with status(grpc.StatusCode.NOT_FOUND):
        await tasks.GetPodEvents(task_pb2.GetPodEventsRequest(jobId=wire))
    with status(grpc.StatusCode.NOT_FOUND):
        await tasks.DeletePodEvents(task_pb2.DeletePodEventsRequest(jobId=wire))


async def test_get_shows_the_pending_reason_and_earlier_runs(three: Served) -> None:
    answer = await three.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=0))
    now = answer.result
    assert now.runtime.state == task_pb2.PENDING and "over its limit" in now.runtime.reason
    assert now.runtime.mesosTaskId.value == f"{JOB}-0-2" and now.config.command.value == "echo hello"
    assert [each.runtime.mesosTaskId.value for each in answer.results] == [f"{JOB}-0-2", f"{JOB}-0-1"]
    past = answer.results[1].runtime
    assert past.state == task_pb2.FAILED and past.host == "h1" and past.agentID.value == "S1"
    assert past.startTime < past.completionTime and "status 1" in past.message


async def test_get_of_an_ended_job_is_from_the_store(three: Served) -> None:
    await ended(three)
    answer = await three.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=1))
    assert answer.result.runtime.host == "h2" and len(answer.results) == 1


async def test_get_of_missing_instances(three: Served) -> None:
    answer = await three.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=3))
    assert answer.outOfRange.instanceCount == 3 and not answer.HasField("result")
    answer = await three.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=2))
    assert answer.result.instanceId == 2 and not answer.result.HasField("runtime")


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize(
    ("pair", "found"), [(None, [0, 1]), ((0, 1), [0]), ((1, 2**32 - 1), [1]), ((1, 1), [])]
)
async def test_list(three: Served, pair: tuple[int, int] | None, found: list[int], over: bool) -> None:
    if over:
        await ended(three)
    request = task_pb2.ListRequest(jobId=job_id())
    if pair is not None:
        request.range.CopyFrom(ranges(pair)[0])
    answer = await three.tasks.List(request)
    assert answer.HasField("result") and sorted(answer.result.value) == found
    assert all(each.config.command.value for each in answer.result.value.values())


async def test_list_out_of_range(three: Served) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, "3:9"):
        await three.tasks.List(task_pb2.ListRequest(jobId=job_id(), range=ranges((3, 9))[0]))


@pytest.mark.parametrize(
    ("pairs", "requested", "done", "left"),
    [
        ([], None, [1, 2], []),
        ([(0, 3)], None, [1, 2], []),
        ([(0, 2)], [0, 1], [1], [0]),
        ([(2, 2**31 - 1)], [2], [2], []),
    ],
)
async def test_start_stop_restart(
    three: Served, pairs: Sequence[tuple[int, int]], requested: object, done: list[int], left: list[int]
) -> None:
    named = ranges(*pairs)
    started = await three.tasks.Start(task_pb2.StartRequest(jobId=job_id(), ranges=named))
    assert list(started.startedInstanceIds) == done and list(started.invalidInstanceIds) == left
    stopped = await three.tasks.Stop(task_pb2.StopRequest(jobId=job_id(), ranges=named))
    assert list(stopped.stoppedInstanceIds) == done and list(stopped.invalidInstanceIds) == left
    await three.tasks.Restart(task_pb2.RestartRequest(jobId=job_id(), ranges=named))
    assert three.engine.requests == [("start", requested), ("stop", requested), ("restart", requested)]


async def test_an_empty_range_has_no_instances(three: Served) -> None:
    await three.tasks.Start(task_pb2.StartRequest(jobId=job_id(), ranges=ranges((1, 1))))
    await three.tasks.Stop(task_pb2.StopRequest(jobId=job_id(), ranges=ranges((2, 1))))
    await three.tasks.Restart(task_pb2.RestartRequest(jobId=job_id(), ranges=ranges((0, 0))))
    assert three.engine.requests == []


@pytest.mark.parametrize("pair", [(3, 4), (0, 4)])
async def test_ranges_beyond_the_job(three: Served, pair: tuple[int, int]) -> None:
    named = ranges(pair)
    answer = await three.tasks.Start(task_pb2.StartRequest(jobId=job_id(), ranges=named))
    assert answer.error.outOfRange.instanceCount == 3
    answer = await three.tasks.Stop(task_pb2.StopRequest(jobId=job_id(), ranges=named))
    assert answer.error.outOfRange.instanceCount == 3
    answer = await three.tasks.Restart(task_pb2.RestartRequest(jobId=job_id(), ranges=named))
    assert answer.outOfRange.instanceCount == 3
    assert three.engine.requests == []


async def test_start_of_ended_jobs(three: Served) -> None:
    cached = three.engine.held[JOB]
    cached.runtime = replace(cached.runtime, goal=JobState.KILLED)
    answer = await three.tasks.Start(task_pb2.StartRequest(jobId=job_id()))
    assert "being stopped" in answer.error.failure.message
    await ended(three)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await three.tasks.Start(task_pb2.StartRequest(jobId=job_id()))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.value.details() == "cannot start tasks in a terminated job"


async def _query(served: Served, text: str) -> tuple[list[int], int]:
    request = task_pb2.QueryRequest(jobId=peloton_pb2.JobID(value=JOB))
    request.spec.CopyFrom(text_format.Parse(text, task_pb2.QuerySpec()))
    answer = await served.tasks.Query(request)
    return [each.instanceId for each in answer.records], answer.pagination.total


def _by(key: str, order: str = "ASC") -> str:
    return f'orderBy {{ order: {order} property {{ value: "{key}" }} }}'


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ([0, 1], 2)),
        ("taskStates: RUNNING", ([1], 1)),
        ("taskStates: RUNNING taskStates: PENDING", ([0, 1], 2)),
        ('hosts: "h2" hosts: "h9"', ([1], 1)),
        ('hosts: "h2" taskStates: PENDING', ([], 0)),
        ('names: "second"', ([1], 1)),
        ('names: "none"', ([], 0)),
        (f"pagination {{ {_by('instance_id', 'DESC')} }}", ([1, 0], 2)),
        (f"pagination {{ {_by('creation_time')} }}", ([1, 0], 2)),
        (f"pagination {{ {_by('creation_time', 'DESC')} limit: 1 }}", ([0], 2)),
        (f"pagination {{ {_by('host', 'DESC')} offset: 1 }}", ([0], 2)),
        (f"pagination {{ {_by('name', 'DESC')} maxLimit: 1 }}", ([1], 1)),
        (f"pagination {{ {_by('state', 'DESC')} {_by('message')} {_by('reason')} }}", ([1, 0], 2)),
    ],
)
async def test_query(served: Served, text: str, found: tuple[list[int], int], over: bool) -> None:
    await served.create('instanceConfig { key: 1 value { name: "second" } }')
    runs = task(state=TaskState.RUNNING, host="h2", created_at=NOW + 1, start_time=NOW + 2)
    await served.engine.put(JOB, {0: task(), 1: runs})
    if over:
        await ended(served)
    assert await _query(served, text) == found


async def test_creation_time_is_the_start_of_the_run(served: Served) -> None:
    await served.create("instanceCount: 4")
    starts = {0: NOW + 30, 1: 0, 2: NOW + 10, 3: NOW + 20}
    await served.engine.put(
        JOB, {i: task(start_time=start, created_at=NOW + i) for i, start in starts.items()}
    )
    assert (await _query(served, f"pagination {{ {_by('creation_time')} }}"))[0] == [2, 3, 0, 1]
    assert (await _query(served, f"pagination {{ {_by('creation_time', 'DESC')} }}"))[0] == [1, 0, 3, 2]


async def test_query_shows_ten(served: Served) -> None:
    await served.create("instanceCount: 25")
    await served.engine.put(JOB, {i: task() for i in range(25)})
    assert await _query(served, "") == (list(range(10)), 25)
    assert await _query(served, "pagination { offset: 20 }") == ([20, 21, 22, 23, 24], 25)


async def test_query_refuses(three: Served) -> None:
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.pagination.orderBy[0].property: 'x'"):
        await _query(three, f"pagination {{ {_by('x')} }}")
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.taskStates[0]"):
        await _query(three, "taskStates: 99")


async def test_refresh_and_cache(three: Served) -> None:
    await three.tasks.Refresh(task_pb2.RefreshRequest(jobId=job_id()))
    await three.tasks.Refresh(task_pb2.RefreshRequest(jobId=job_id(), range=ranges((1, 9))[0]))
    assert three.engine.requests == [("refresh", 0, 3), ("refresh", 1, 3)]
    cache = await three.tasks.GetCache(task_pb2.GetCacheRequest(jobId=job_id()))
    assert cache.runtime.state == task_pb2.PENDING and "over its limit" in cache.runtime.reason
    with status(grpc.StatusCode.NOT_FOUND, "no instance 2"):
        await three.tasks.GetCache(task_pb2.GetCacheRequest(jobId=job_id(), instanceId=2))


async def _events(served: Served, **more: Any) -> list[tuple[str, str]]:
    answer = await served.tasks.GetPodEvents(task_pb2.GetPodEventsRequest(jobId=job_id(), **more))
    assert not answer.HasField("error"), answer
    return [(each.taskId.value[-1], each.actualState) for each in answer.result]


async def test_pod_events(three: Served) -> None:
    everything = [("2", "PENDING"), ("1", "FAILED"), ("1", "RUNNING")]
    assert await _events(three) == everything
    assert await _events(three, limit=1) == everything[:1]
    assert await _events(three, limit=2**64 - 1) == everything
    assert await _events(three, runId=f"{JOB}-0-1") == await _events(three, runId="1") == everything[1:]
    assert await _events(three, runId="9") == []
    await three.tasks.DeletePodEvents(task_pb2.DeletePodEventsRequest(jobId=job_id(), runId=1))
    assert await _events(three) == everything[:1]
    await three.tasks.DeletePodEvents(task_pb2.DeletePodEventsRequest(jobId=job_id(), runId=2**64 - 1))
    assert await _events(three) == []


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"runId": "x"}, "such as"),
        ({"runId": f"{JOB}-1-1"}, "a run of this instance"),
        ({"instanceId": 3}, "instanceId: 3"),
    ],
)
async def test_pod_events_refused(three: Served, more: dict[str, Any], part: str) -> None:
    request = task_pb2.GetPodEventsRequest(jobId=job_id(), **more)
    assert part in (await three.tasks.GetPodEvents(request)).error.message


@pytest.mark.parametrize("name", ["peloton.api.v0.task.TaskManager", "peloton.api.task.TaskManager"])
async def test_both_names_answer(three: Served, name: str) -> None:
    call = three.channel.unary_unary(
        f"/{name}/Get",
        request_serializer=task_pb2.GetRequest.SerializeToString,
        response_deserializer=task_pb2.GetResponse.FromString,
    )
    assert (await call(task_pb2.GetRequest(jobId=job_id()))).HasField("result")


async def test_each_task_is_shown_with_the_config_of_its_own_version(with_job: Served) -> None:
    """Also past runs, and tasks of a job that has ended; an instance without a row has the newest."""
    engine, tasks = with_job.engine, with_job.tasks
    newer = job('defaultConfig { name: "newer" killGracePeriodSeconds: 60 }')
    newer.changeLog.version = 2
    await engine.update_job(JOB, job_spec(newer, 2))
    rows = {0: task(), 1: task(config_version=2, desired_config_version=2, run=2)}
    await engine.put(JOB, rows)
    events = [PodEvent(JOB, 1, 1, TaskState.FAILED, TaskState.SUCCEEDED, NOW, 1, 1)]
    await engine.store.write_all(JOB, {}, events)

    async def shown() -> None:
        listed = (await tasks.List(task_pb2.ListRequest(jobId=job_id()))).result.value
        assert {i: each.config.killGracePeriodSeconds for i, each in listed.items()} == {0: 0, 1: 60}
        got = await tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=1))
        assert [each.config.killGracePeriodSeconds for each in got.results] == [60, 0]
        without = await tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=2))
        assert without.result.config.killGracePeriodSeconds == 60
        spec = task_pb2.QuerySpec(names=["newer"])
        found = await tasks.Query(task_pb2.QueryRequest(jobId=job_id(), spec=spec))
        assert [(each.instanceId, each.config.name) for each in found.records] == [(1, "newer")]

    await shown()
    await ended(with_job)
    await shown()


@pytest.mark.parametrize("text", ["", f"pagination {{ {_by('reason', 'DESC')} }}"])
async def test_a_query_tells_why_tasks_wait(served: Served, text: str) -> None:
    await served.create()
    await served.engine.put(JOB, {0: task(run=1), 1: task(run=1)})
    held = served.engine.held[JOB].pending_reasons
    for instance in (0, 1):
        held[instance] = PendingReason(1, TaskState.PENDING, f"reason {instance}")
    request = task_pb2.QueryRequest(jobId=job_id(), spec=text_format.Parse(text, task_pb2.QuerySpec()))
    found = [(each.instanceId, each.runtime.reason) for each in (await served.tasks.Query(request)).records]
    ordered = [(0, "reason 0"), (1, "reason 1")]
    assert found == (ordered[::-1] if text else ordered)

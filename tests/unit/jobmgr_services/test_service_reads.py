"""JobService over the wire: what changes nothing, for jobs of either API, active and ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc
import pytest

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.query import query_pb2
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import (
    EntityVersion,
    Range,
    WorkflowEvent,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from peloton.wire.payload import spec_from_v1alpha
from peloton.wire.v1alpha.duplicate_fields import filled_job
from peloton.wire.v1alpha.job_status import entity_version
from tests.unit.jobmgr_services.conftest import JOB, Served, status
from tests.unit.jobmgr_services.fakes import NOW, runtime, task
from tests.unit.jobmgr_services.test_services import job_id, ranges, version
from tests.unit.wire.specs import job

OPTIONS = WorkflowOptions(batch_size=1)
OTHER = "a0000000-0000-4000-8000-00000000000b"
GIVEN = job("instance_spec { key: 1 value { labels { key: 'app' value: 'canary' } } }")


@pytest.fixture
async def three(served: Served) -> Served:
    """A service whose pods 0 and 1 run, 2 waits."""
    engine = served.engine
    await engine.create_job(JOB, spec_from_v1alpha(GIVEN, 1))
    running = {"state": TaskState.RUNNING, "goal": TaskState.RUNNING, "host": "h1", "agent_id": "S1"}
    await engine.put(
        JOB, {0: task(**running, created_at=NOW), 1: task(**{**running, "host": "h2"}), 2: task(run=3)}
    )
    held = engine.held[JOB]
    held.runtime = replace(
        held.runtime,
        state=JobState.RUNNING,
        goal=JobState.RUNNING,
        task_counts=dict(held.counts),
        config_counts={1: 3},
        workflow_version=4,
        desired_state_version=2,
    )
    return served


async def get(served: Served, **fields: Any) -> pb.GetJobResponse:
    answer: pb.GetJobResponse = await served.services.GetJob(pb.GetJobRequest(job_id=job_id(), **fields))
    return answer


async def test_get(three: Served) -> None:
    answer = await get(three)
    spec, found = answer.job_info.spec, answer.job_info.status
    assert answer.job_info.job_id.value == JOB and not answer.HasField("summary")
    assert spec.revision.version == 1
    spec.ClearField("revision")
    assert spec == filled_job(GIVEN)
    assert (found.state, found.desired_state) == (
        stateless_pb2.JOB_STATE_RUNNING,
        stateless_pb2.JOB_STATE_RUNNING,
    )
    assert found.version.value == "1-2-4"
    assert dict(found.pod_stats) == {"POD_STATE_RUNNING": 2, "POD_STATE_PENDING": 1}
    assert dict(found.pod_configuration_version_stats) == {"1-0-0": 3}
    stats = found.pod_stats_by_configuration_version
    assert {key: dict(value.state_stats) for key, value in stats.items()} == {"1-0-0": dict(found.pod_stats)}
    assert found.creation_time == "2023-11-14T22:13:20.000000000Z"
    assert not answer.HasField("workflow_info") and not found.HasField("workflow_status")


async def test_get_the_summary(three: Served) -> None:
    answer = await get(three, summary_only=True)
    summary = answer.summary
    assert not answer.HasField("job_info")
    assert (summary.job_id.value, summary.name, summary.owner, summary.owning_team) == (
        JOB,
        "web",
        "infra",
        "infra",
    )
    assert [(label.key, label.value) for label in summary.labels] == [("tier", "front")]
    assert (summary.instance_count, summary.respool_id) == (3, GIVEN.respool_id)
    assert summary.status.version.value == "1-2-4"


async def test_get_an_earlier_version(three: Served) -> None:
    engine = three.engine
    newer = job("instance_count: 3 description: 'newer'")
    await engine.update_job(JOB, spec_from_v1alpha(newer, 2))
    held = engine.held[JOB]
    held.put(0, replace(held.task(0), config_version=2))
    held.runtime = replace(held.runtime, config_counts={1: 2, 2: 1})
    assert (await get(three)).job_info.spec.description == "newer"
    old = await get(three, version=version("1-7-7"))
    assert old.job_info.spec.description == "" and old.job_info.spec.revision.version == 1
    stats = old.job_info.status.pod_stats_by_configuration_version
    assert {key: dict(value.state_stats) for key, value in stats.items()} == {
        "1-0-0": {"POD_STATE_RUNNING": 1, "POD_STATE_PENDING": 1},
        "2-0-0": {"POD_STATE_RUNNING": 1},
    }
    with status(grpc.StatusCode.NOT_FOUND, "has no config version 9"):
        await get(three, version=version("9-1-1"))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "version.value: 'x' is not a version"):
        await get(three, version=version("x"))


async def test_get_a_batch_job_that_has_ended(with_job: Served) -> None:
    await with_job.engine.end(JOB, state=JobState.SUCCEEDED)
    info = (await get(with_job)).job_info
    assert info.spec.default_spec.containers[0].entrypoint.value == "echo hello"
    assert info.status.state == stateless_pb2.JOB_STATE_SUCCEEDED
    with status(grpc.StatusCode.NOT_FOUND, "only active jobs"):
        await with_job.services.GetJobCache(pb.GetJobCacheRequest(job_id=job_id()))


async def test_cache(three: Served) -> None:
    answer = await three.services.GetJobCache(pb.GetJobCacheRequest(job_id=job_id()))
    assert answer.spec.name == "web" and answer.status.version.value == "1-2-4"


async def test_refresh(three: Served) -> None:
    await three.services.RefreshJob(pb.RefreshJobRequest(job_id=job_id()))
    assert three.engine.requests == [("refresh",)]


async def test_ids_by_name(three: Served) -> None:
    call = three.services.GetJobIDFromJobName
    store = three.engine.store
    await store.jobs.create(OTHER, spec_from_v1alpha(job(), 1), runtime(creation_time=NOW + 1))
    longer = OTHER[:-1] + "c"
    await store.jobs.create(longer, spec_from_v1alpha(job("name: 'web2'"), 1), runtime())
    answer = await call(pb.GetJobIDFromJobNameRequest(job_name="web"))
    assert [each.value for each in answer.job_id] == [OTHER, JOB]
    for unknown in ("we", "w*", "WEB"):
        with status(grpc.StatusCode.NOT_FOUND, f"no job has the name {unknown!r}"):
            await call(pb.GetJobIDFromJobNameRequest(job_name=unknown))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "job_name: '' is not the name of a job"):
        await call(pb.GetJobIDFromJobNameRequest())


async def pods(served: Served, *pairs: tuple[int, int]) -> list[pod_pb2.PodSummary]:
    request = pb.ListPodsRequest(job_id=job_id())
    if pairs:
        request.range.CopyFrom(ranges(*pairs)[0])
    return [pod async for answer in served.services.ListPods(request) for pod in answer.pods]


async def test_list_pods(three: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobmgr.services.v1alpha.job_reads.PODS_PER_MESSAGE", 2)
    found = await pods(three)
    assert [pod.pod_name.value for pod in found] == [f"{JOB}-{i}" for i in range(3)]
    assert [pod.status.host for pod in found] == ["h1", "h2", ""]
    assert found[2].status.pod_id.value == f"{JOB}-2-3"
    assert [pod.pod_name.value for pod in await pods(three, (1, 2))] == [f"{JOB}-1"]
    assert await pods(three, (1, 1)) == []
    with status(grpc.StatusCode.INVALID_ARGUMENT, "within the job's instances, 0 to 2"):
        await pods(three, (3, 4))


async def test_list_pods_of_unknown_jobs(served: Served) -> None:
    with status(grpc.StatusCode.NOT_FOUND, "job not found"):
        await pods(served)


async def query_pods(served: Served, **fields: Any) -> list[str]:
    answer = await served.services.QueryPods(pb.QueryPodsRequest(job_id=job_id(), **fields))
    return [pod.spec.pod_name.value[-1] for pod in answer.pods]


def page(**fields: Any) -> query_pb2.PaginationSpec:
    return query_pb2.PaginationSpec(**fields)


async def test_query_pods(three: Served) -> None:
    spec = pod_pb2.QuerySpec
    assert await query_pods(three) == ["0", "1", "2"]
    assert await query_pods(three, spec=spec(pod_states=[pod_pb2.POD_STATE_PENDING])) == ["2"]
    assert await query_pods(three, spec=spec(hosts=["h2"])) == ["1"]
    named = [peloton_pb2.PodName(value=f"{JOB}-0"), peloton_pb2.PodName(value="other")]
    assert await query_pods(three, spec=spec(names=named)) == ["0"]
    order = query_pb2.OrderBy(
        order=query_pb2.OrderBy.ORDER_BY_DESC, property=query_pb2.PropertyPath(value="instance_id")
    )
    assert await query_pods(three, spec=spec(pagination=page(order_by=[order], limit=2))) == ["2", "1"]
    assert await query_pods(three, pagination=page(offset=1, limit=1)) == ["1"]
    answer = await three.services.QueryPods(
        pb.QueryPodsRequest(job_id=job_id(), summary_only=True, pagination=page(limit=1))
    )
    assert not answer.pods[0].HasField("spec") and answer.pods[0].status.host == "h1"
    assert (answer.pagination.limit, answer.pagination.total) == (1, 3)


async def test_query_pods_refused(three: Served) -> None:
    unknown = pod_pb2.QuerySpec(pod_states=[99])  # type: ignore[list-item]
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.pod_states[0]: 99 is not a number from 0 to 17"):
        await query_pods(three, spec=unknown)
    order = query_pb2.OrderBy(property=query_pb2.PropertyPath(value="color"))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.pagination.order_by[0].property: 'color' is not one"):
        await query_pods(three, pagination=page(order_by=[order]))


async def query_jobs(served: Served, **fields: Any) -> list[str]:
    spec = stateless_pb2.QuerySpec(**fields)
    answer = await served.services.QueryJobs(pb.QueryJobsRequest(spec=spec))
    return [each.job_id.value for each in answer.records]


async def test_query_jobs(three: Served) -> None:
    assert await query_jobs(three) == [JOB]
    labels = [peloton_pb2.Label(key="tier", value="front")]
    assert await query_jobs(three, labels=labels, name="w*", owner="infra", keywords=["serve"]) == [JOB]
    assert await query_jobs(three, owner="ann") == []
    assert await query_jobs(three, job_states=[stateless_pb2.JOB_STATE_KILLED]) == []
    answer = await three.services.QueryJobs(pb.QueryJobsRequest())
    (found,) = answer.records
    assert found.status.version.value == "1-2-4" and found.status.state == stateless_pb2.JOB_STATE_RUNNING
    assert (answer.pagination.limit, answer.pagination.total) == (10, 1)
    assert answer.spec.pagination.order_by[0].property.value == "creation_time"


async def test_query_jobs_refused(served: Served) -> None:
    spec = stateless_pb2.QuerySpec()
    spec.creation_time_range.min.seconds = 2
    spec.creation_time_range.max.seconds = 1
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.creation_time_range.min: "):
        await served.services.QueryJobs(pb.QueryJobsRequest(spec=spec))
    spec = stateless_pb2.QuerySpec(job_states=[99])  # type: ignore[list-item]
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.job_states[0]: 99 is not a number from 0 to 9"):
        await served.services.QueryJobs(pb.QueryJobsRequest(spec=spec))
    spec = stateless_pb2.QuerySpec()
    spec.respool.value = "/no/such"
    with status(grpc.StatusCode.INVALID_ARGUMENT, "spec.respool: '/no/such' is not the path"):
        await served.services.QueryJobs(pb.QueryJobsRequest(spec=spec))


async def test_list_jobs(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobmgr.services.v1alpha.job_reads.JOBS_PER_MESSAGE", 2)
    made = [f"a0000000-0000-4000-8000-00000000001{i}" for i in range(7)]
    for i, each in enumerate(made):  # the first five at the same time
        created = NOW + max(0, i - 4)
        await served.engine.store.jobs.create(
            each, spec_from_v1alpha(job(), 1), runtime(creation_time=created)
        )
    answers = [answer async for answer in served.services.ListJobs(pb.ListJobsRequest())]
    assert [each.job_id.value for answer in answers for each in answer.jobs] == made
    assert answers[0].jobs[0].name == "web"


def event(state: WorkflowState, instance: int = -1, at: int = 0) -> WorkflowEvent:
    return WorkflowEvent("w0", JOB, instance, WorkflowType.UPDATE, state, NOW + at)


@pytest.fixture
async def updating(served: Served) -> Served:
    """A service that is being created, with events of that."""
    await served.workflows.create_job(JOB, spec_from_v1alpha(GIVEN, 1), OPTIONS)
    served.workflows.events_of = [
        event(WorkflowState.ROLLING_FORWARD),
        event(WorkflowState.SUCCEEDED, 1, 2),
        event(WorkflowState.ROLLING_FORWARD, 1, 1),
    ]
    return served


async def test_the_workflow_of_a_job(updating: Served) -> None:
    answer = await get(updating)
    found = answer.job_info.status.workflow_status
    assert found == answer.workflow_info.status
    assert (found.type, found.state) == (
        stateless_pb2.WORKFLOW_TYPE_UPDATE,
        stateless_pb2.WORKFLOW_STATE_ROLLING_FORWARD,
    )
    assert (found.num_instances_completed, found.num_instances_remaining, found.num_instances_failed) == (
        1,
        2,
        0,
    )
    assert list(found.instances_current) == [1]
    assert (found.version.value, found.prev_version.value) == ("1-0-0", "0-0-0")
    info = answer.workflow_info
    assert info.update_spec == stateless_pb2.UpdateSpec(batch_size=1)
    assert [(getattr(r, "from"), r.to) for r in info.instances_updated] == [(0, 3)]
    assert [each.state for each in info.events] == [stateless_pb2.WORKFLOW_STATE_ROLLING_FORWARD]


async def test_list_workflows(updating: Served) -> None:
    await updating.workflows.restart(JOB, (Range(0, 1),), OPTIONS, expected=_seen(updating))
    call = updating.services.ListJobWorkflows
    both = (await call(pb.ListJobWorkflowsRequest(job_id=job_id()))).workflow_infos
    assert [each.status.type for each in both] == [
        stateless_pb2.WORKFLOW_TYPE_RESTART,
        stateless_pb2.WORKFLOW_TYPE_UPDATE,
    ]
    assert not both[1].instance_events
    one = await call(pb.ListJobWorkflowsRequest(job_id=job_id(), updates_limit=1))
    assert len(one.workflow_infos) == 1
    told = await call(
        pb.ListJobWorkflowsRequest(job_id=job_id(), instance_events=True, instance_events_limit=1)
    )
    (instance,) = told.workflow_infos[1].instance_events
    assert instance.instance_id == 1
    assert [each.state for each in instance.events] == [stateless_pb2.WORKFLOW_STATE_SUCCEEDED]


def _seen(served: Served) -> EntityVersion:
    return entity_version(served.engine.held[JOB].runtime)


async def test_workflow_events(updating: Served) -> None:
    call = updating.services.GetWorkflowEvents
    answer = await call(pb.GetWorkflowEventsRequest(job_id=job_id(), instance_id=1))
    assert [each.state for each in answer.events] == [
        stateless_pb2.WORKFLOW_STATE_SUCCEEDED,
        stateless_pb2.WORKFLOW_STATE_ROLLING_FORWARD,
    ]
    assert answer.events[0].timestamp == "2023-11-14T22:13:20.000000002Z"
    last = await call(pb.GetWorkflowEventsRequest(job_id=job_id(), instance_id=1, limit=1))
    assert len(last.events) == 1
    assert not (await call(pb.GetWorkflowEventsRequest(job_id=job_id(), instance_id=0))).events
    with status(grpc.StatusCode.NOT_FOUND, "no instance 9: the job has 3"):
        await call(pb.GetWorkflowEventsRequest(job_id=job_id(), instance_id=9))


async def test_batch_jobs_have_no_workflow_to_tell_of(with_job: Served) -> None:
    assert not (await get(with_job)).HasField("workflow_info")
    call = with_job.services
    assert not (await call.GetWorkflowEvents(pb.GetWorkflowEventsRequest(job_id=job_id()))).events
    assert not (await call.ListJobWorkflows(pb.ListJobWorkflowsRequest(job_id=job_id()))).workflow_infos

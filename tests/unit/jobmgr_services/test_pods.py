"""PodService over the wire: a pod by its name, of jobs of either API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import grpc
import pytest

from jobmgr.core.state.cache import PendingReason
from jobmgr.services.common import sandbox
from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pb
from peloton.errors import NotFound, PelotonError, Unavailable
from peloton.model.states import HealthState, JobState, TaskState, TerminationReason
from peloton.model.task import Termination
from peloton.wire.payload import spec_from_v1alpha
from tests.unit.jobmgr_services.conftest import JOB, Served, status
from tests.unit.jobmgr_services.fakes import NOW, task
from tests.unit.jobmgr_services.test_tasks import HISTORY
from tests.unit.wire.specs import job as service_spec

METHODS = (
    "StartPod",
    "StopPod",
    "RestartPod",
    "GetPod",
    "GetPodEvents",
    "BrowsePodSandbox",
    "RefreshPod",
    "GetPodCache",
    "DeletePodEvents",
)


def name(instance: int | str, job: str = JOB) -> peloton_pb2.PodName:
    return peloton_pb2.PodName(value=f"{job}-{instance}")


def pod_id(run: int, instance: int = 0) -> peloton_pb2.PodID:
    return peloton_pb2.PodID(value=f"{JOB}-{instance}-{run}")


@pytest.fixture
async def three(served: Served) -> Served:
    """A v1alpha service: pod 0 waits for its second run, 1 runs, 2 has no row yet; 0's history is stored."""
    engine = served.engine
    given = service_spec("instance_spec { key: 1 value { labels { key: 'app' value: 'canary' } } }")
    await engine.create_job(JOB, spec_from_v1alpha(given, 1))
    await engine.put(
        JOB,
        {
            0: task(run=2, desired_run=2, previous_run=1),
            1: task(
                state=TaskState.RUNNING,
                goal=TaskState.RUNNING,
                host="h2",
                agent_id="S2",
                start_time=NOW,
                ports={"http": 31000},
                health=HealthState.HEALTHY,
                created_at=NOW + 1,
            ),
        },
    )
    engine.held[JOB].pending_reasons[0] = PendingReason(
        2, TaskState.PENDING, "pool /teams/batch: cpu 1 over its limit"
    )
    await engine.store.write_all(JOB, {}, HISTORY)
    return served


def test_all_methods_are_tried() -> None:
    assert set(METHODS) == set(pb.DESCRIPTOR.services_by_name["PodService"].methods_by_name)


@pytest.mark.parametrize("method", METHODS)
async def test_names_of_pods_that_are_not_there(three: Served, method: str) -> None:
    call, request = getattr(three.pods, method), getattr(pb, f"{method}Request")
    for stranger in ("", "no-pod", JOB, f"{JOB}-", f"{JOB}-x"):
        wrong = request(pod_name=peloton_pb2.PodName(value=stranger))
        with status(grpc.StatusCode.INVALID_ARGUMENT, f"pod_name: {stranger!r} is not <job UUID>-<instance>"):
            await call(wrong)
    with status(grpc.StatusCode.NOT_FOUND, "the job has 3 instances"):
        await call(request(pod_name=name(3)))
    with status(grpc.StatusCode.NOT_FOUND, "job not found"):
        await call(request(pod_name=name(0, "a0000000-0000-4000-8000-00000000000b")))


@pytest.mark.parametrize(
    ("method", "asked"), [("StartPod", "start"), ("StopPod", "stop"), ("RestartPod", "restart")]
)
async def test_start_stop_and_restart(three: Served, method: str, asked: str) -> None:
    request = getattr(pb, f"{method}Request")(pod_name=name(1))
    for _ in range(2):
        await getattr(three.pods, method)(request)
    assert three.engine.requests == [(asked, [1]), (asked, [1])]


async def test_restart_within_the_sla(three: Served) -> None:
    await three.pods.RestartPod(pb.RestartPodRequest(pod_name=name(1), check_sla=True))
    assert three.engine.requests == [("restart within the SLA", [1])]


async def test_start_in_a_batch_job_that_has_ended(with_job: Served) -> None:
    await with_job.engine.end(JOB, state=JobState.FAILED)
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await with_job.pods.StartPod(pb.StartPodRequest(pod_name=name(0)))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.value.details() == "cannot start tasks in a terminated job"


async def test_start_in_a_job_that_is_being_stopped(three: Served) -> None:
    held = three.engine.held[JOB]
    held.runtime = replace(held.runtime, goal=JobState.KILLED)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "being stopped"):
        await three.pods.StartPod(pb.StartPodRequest(pod_name=name(0)))


async def test_get_a_pod_that_runs(three: Served) -> None:
    answer = await three.pods.GetPod(pb.GetPodRequest(pod_name=name(1), limit=5))
    spec, found = answer.current.spec, answer.current.status
    assert not answer.previous
    assert spec.pod_name == name(1)
    assert [(label.key, label.value) for label in spec.labels] == [("app", "canary")]
    assert spec.containers[0].entrypoint.value == spec.containers[0].command.value == "serve --port 80"
    assert (found.state, found.desired_state) == (pod_pb2.POD_STATE_RUNNING, pod_pb2.POD_STATE_RUNNING)
    assert (found.pod_id, found.desired_pod_id) == (pod_id(1, 1), pod_id(1, 1))
    assert not found.HasField("prev_pod_id")
    assert (found.host, found.agent_id.value, found.host_id) == ("h2", "S2", "S2")
    assert (found.version.value, found.desired_version.value) == ("1-0-0", "1-0-0")
    (container,) = found.containers_status
    assert (container.name, container.state) == ("main", pod_pb2.CONTAINER_STATE_RUNNING)
    assert dict(container.ports) == {"http": 31000}
    assert container.healthy.state == pod_pb2.HEALTH_STATE_HEALTHY
    assert container.start_time == found.start_time == "2023-11-14T22:13:20.000000000Z"


async def test_get_earlier_runs(three: Served) -> None:
    one = await three.pods.GetPod(pb.GetPodRequest(pod_name=name(0), limit=1))
    assert one.current.status.reason == "pool /teams/batch: cpu 1 over its limit"
    assert one.current.status.prev_pod_id == pod_id(1)
    (past,) = one.previous
    assert (past.status.state, past.status.pod_id) == (pod_pb2.POD_STATE_FAILED, pod_id(1))
    assert past.status.host == "h1" and past.spec.containers[0].name == "main"
    none = await three.pods.GetPod(pb.GetPodRequest(pod_name=name(0)))
    assert not none.previous
    bare = await three.pods.GetPod(pb.GetPodRequest(pod_name=name(0), limit=1, status_only=True))
    assert not bare.current.HasField("spec") and not bare.previous[0].HasField("spec")


async def test_get_a_pod_without_a_row(three: Served) -> None:
    answer = await three.pods.GetPod(pb.GetPodRequest(pod_name=name(2), limit=5))
    assert answer.current.spec.pod_name == name(2) and not answer.current.HasField("status")


async def test_get_a_pod_that_has_ended(three: Served) -> None:
    await three.engine.put(
        JOB,
        {
            2: task(
                state=TaskState.FAILED,
                failure_count=2,
                completion_time=NOW,
                termination=Termination(TerminationReason.FAILED, 3, "Killed"),
                message="Command exited with status 3",
            )
        },
    )
    await three.engine.end(JOB, state=JobState.FAILED)
    answer = await three.pods.GetPod(pb.GetPodRequest(pod_name=name(2)))
    (container,) = answer.current.status.containers_status
    end = container.terminationStatus
    assert (end.reason, end.exit_code, end.signal) == (
        pod_pb2.TerminationStatus.TERMINATION_STATUS_REASON_FAILED,
        3,
        "Killed",
    )
    assert (container.state, container.failure_count) == (pod_pb2.CONTAINER_STATE_FAILED, 2)
    assert answer.current.status.message == "Command exited with status 3"


async def test_pod_of_a_v0_job(with_job: Served) -> None:
    await with_job.engine.put(JOB, {0: task()})
    answer = await with_job.pods.GetPod(pb.GetPodRequest(pod_name=name(0)))
    main = answer.current.spec.containers[0]
    assert main.command.value == main.entrypoint.value == "echo hello"
    assert answer.current.status.state == pod_pb2.POD_STATE_PENDING


async def test_v0_sees_pods_as_tasks(three: Served) -> None:
    answer = await three.tasks.Get(task_pb2.GetRequest(jobId=v0_peloton.JobID(value=JOB), instanceId=1))
    config = answer.result.config
    assert (config.name, config.command.value, config.command.shell) == ("main", "serve --port 80", True)
    assert [(label.key, label.value) for label in config.labels] == [("app", "canary")]
    assert [v.name for v in config.command.environment.variables] == ["MODE"]


async def test_events(three: Served) -> None:
    everything = await three.pods.GetPodEvents(pb.GetPodEventsRequest(pod_name=name(0)))
    assert [(each.pod_id, each.actual_state) for each in everything.events] == [
        (pod_id(2), "POD_STATE_PENDING"),
        (pod_id(1), "POD_STATE_FAILED"),
        (pod_id(1), "POD_STATE_RUNNING"),
    ]
    assert everything.events[0].prev_pod_id == pod_id(1)
    failed = everything.events[1]
    assert (failed.hostname, failed.agent_id, failed.message) == ("h1", "S1", "Command exited with status 1")
    assert (failed.version.value, failed.healthy) == ("1-0-0", "HEALTH_STATE_DISABLED")
    first = await three.pods.GetPodEvents(pb.GetPodEventsRequest(pod_name=name(0), pod_id=pod_id(1)))
    assert [each.actual_state for each in first.events] == ["POD_STATE_FAILED", "POD_STATE_RUNNING"]
    unknown = await three.pods.GetPodEvents(pb.GetPodEventsRequest(pod_name=name(0), pod_id=pod_id(9)))
    assert not unknown.events


@pytest.mark.parametrize("method", ["GetPodEvents", "BrowsePodSandbox", "DeletePodEvents"])
async def test_ids_of_other_pods(three: Served, method: str) -> None:
    request = getattr(pb, f"{method}Request")
    for stranger in (pod_id(1, 1), peloton_pb2.PodID(value="no-run")):
        with status(grpc.StatusCode.INVALID_ARGUMENT, f"pod_id: {stranger.value!r} is not a run of this"):
            await getattr(three.pods, method)(request(pod_name=name(0), pod_id=stranger))


async def test_delete_events(three: Served) -> None:
    request = pb.DeletePodEventsRequest(pod_name=name(0), pod_id=pod_id(1))
    for _ in range(2):
        await three.pods.DeletePodEvents(request)
    left = await three.pods.GetPodEvents(pb.GetPodEventsRequest(pod_name=name(0)))
    assert [each.pod_id for each in left.events] == [pod_id(2)]
    with status(grpc.StatusCode.INVALID_ARGUMENT, "pod_id: ''"):
        await three.pods.DeletePodEvents(pb.DeletePodEventsRequest(pod_name=name(0)))


async def test_refresh(three: Served) -> None:
    await three.pods.RefreshPod(pb.RefreshPodRequest(pod_name=name(1)))
    assert three.engine.requests == [("refresh", 1, 2)]


async def test_cache(three: Served) -> None:
    answer = await three.pods.GetPodCache(pb.GetPodCacheRequest(pod_name=name(1)))
    assert answer.status.state == pod_pb2.POD_STATE_RUNNING
    assert [(label.key, label.value) for label in answer.labels] == [("app", "canary")]
    with status(grpc.StatusCode.NOT_FOUND, "not in memory"):
        await three.pods.GetPodCache(pb.GetPodCacheRequest(pod_name=name(2)))
    await three.engine.end(JOB, state=JobState.KILLED)
    with status(grpc.StatusCode.NOT_FOUND, "not in memory"):
        await three.pods.GetPodCache(pb.GetPodCacheRequest(pod_name=name(1)))


async def test_sandbox_of_a_run_that_was_not_launched(three: Served) -> None:
    for request in (
        pb.BrowsePodSandboxRequest(pod_name=name(0)),
        pb.BrowsePodSandboxRequest(pod_name=name(0), pod_id=pod_id(7)),
        pb.BrowsePodSandboxRequest(pod_name=name(2)),
    ):
        with status(grpc.StatusCode.NOT_FOUND):
            await three.pods.BrowsePodSandbox(request)


async def test_sandbox(three: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(self: Any, run: str, host: str, agent_id: str) -> sandbox.Sandbox:
        return sandbox.Sandbox("10.0.0.7", "5051", (f"/{run}/{host}/{agent_id}/stdout",), "master", "5050")

    monkeypatch.setattr(sandbox.Sandboxes, "find", find)
    answer = await three.pods.BrowsePodSandbox(pb.BrowsePodSandboxRequest(pod_name=name(1)))
    assert (answer.hostname, answer.port) == ("10.0.0.7", "5051")
    assert list(answer.paths) == [f"/{JOB}-1-1/h2/S2/stdout"]
    assert (answer.mesos_master_hostname, answer.mesos_master_port) == ("master", "5050")
    past = await three.pods.BrowsePodSandbox(pb.BrowsePodSandboxRequest(pod_name=name(0), pod_id=pod_id(1)))
    assert list(past.paths) == [f"/{JOB}-0-1/h1/S1/stdout"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("the sandbox of the run is gone"), grpc.StatusCode.NOT_FOUND),
        (Unavailable("agent h2:5051 does not answer"), grpc.StatusCode.UNAVAILABLE),
    ],
)
async def test_a_sandbox_that_cannot_be_listed(
    three: Served, monkeypatch: pytest.MonkeyPatch, error: PelotonError, code: grpc.StatusCode
) -> None:
    async def fail(self: Any, run: str, host: str, agent_id: str) -> sandbox.Sandbox:
        raise error

    monkeypatch.setattr(sandbox.Sandboxes, "find", fail)
    with status(code, str(error)):
        await three.pods.BrowsePodSandbox(pb.BrowsePodSandboxRequest(pod_name=name(1)))


async def test_reading_and_refreshing_may_be_repeated(three: Served) -> None:
    for method in ("GetPod", "GetPodCache", "GetPodEvents"):
        request = getattr(pb, f"{method}Request")(pod_name=name(0))
        first, second = [await getattr(three.pods, method)(request) for _ in range(2)]
        assert first == second
    for _ in range(2):
        await three.pods.RefreshPod(pb.RefreshPodRequest(pod_name=name(0)))
    assert three.engine.requests == [("refresh", 0, 1)] * 2

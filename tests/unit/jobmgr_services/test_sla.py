"""The SLA of a service over the wire and the goal-state engine: restarts that check it, and who is down."""

from __future__ import annotations

import grpc
import pytest

from jobmgr.core.state.events import Enqueued, Statuses
from jobmgr.engine.workflows import Workflows
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.svc import pod_svc_pb2 as pb
from peloton.clock import NANOSECONDS, parse_rfc3339
from peloton.model.ids import Run, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id, status
from tests.unit.jobmgr_services.test_private import availability, throttled
from tests.unit.jobmgr_services.test_services import job_id as v1alpha_job_id
from tests.unit.jobmgr_services.test_with_engine import real, states
from tests.unit.wire.specs import job

__all__ = ["real"]
SLA_AWARE = pod_pb2.TerminationStatus.TERMINATION_STATUS_REASON_KILLED_FOR_SLA_AWARE_RESTART
OTHER = "a0000000-0000-4000-8000-00000000000b"


@pytest.fixture
async def running(real: Served) -> Served:
    """A service of three running pods, of which one may be unavailable."""
    given = job("sla { maximum_unavailable_instances: 1 }")
    request = stateless_svc_pb2.CreateJobRequest(job_id=v1alpha_job_id(), spec=given)
    await real.services.CreateJob(request)
    await states(real, [task_pb2.INITIALIZED] * 3)
    await report(real, TaskState.RUNNING, 0, 1, 2)
    return real


async def report(served: Served, state: TaskState, *instances: int, run: int = 1) -> None:
    """Mesos reports the state of runs, which resmgr had taken."""
    served.engine.lanes.post(Enqueued(JOB, [(i, run) for i in instances]))
    statuses = [
        (Run(JOB, i, run), TaskStatus(mesos_task_id(JOB, i, run), state, 0, "S1", uuid=b"u"))
        for i in instances
    ]
    served.engine.lanes.post(Statuses(statuses))
    await served.engine.lanes.flush()


def request(instance: int, check_sla: bool = True, of: str = JOB) -> pb.RestartPodRequest:
    name = peloton_pb2.PodName(value=f"{of}-{instance}")
    return pb.RestartPodRequest(pod_name=name, check_sla=check_sla)


async def test_restarts_within_the_sla(running: Served) -> None:
    assert set((await availability(running)).values()) == {"AVAILABLE"}
    for _ in range(2):
        await running.pods.RestartPod(request(0))
    assert (await availability(running))[0] == "UNAVAILABLE"
    with status(grpc.StatusCode.ABORTED, "maximumUnavailableInstances is 1"):
        await running.pods.RestartPod(request(1))
    await states(running, [task_pb2.KILLING, task_pb2.RUNNING, task_pb2.RUNNING])

    await report(running, TaskState.KILLED, 0)
    with status(grpc.StatusCode.ABORTED, "would break"):
        await running.pods.RestartPod(request(1))
    await report(running, TaskState.RUNNING, 0, run=2)
    await running.pods.RestartPod(request(1))
    await states(running, [task_pb2.RUNNING, task_pb2.KILLING, task_pb2.RUNNING])


async def test_the_ended_run_tells_the_reason(running: Served) -> None:
    await running.pods.RestartPod(request(0))
    await report(running, TaskState.KILLED, 0)
    found = await running.pods.GetPod(pb.GetPodRequest(pod_name=request(0).pod_name, limit=5))
    (past,) = found.previous
    assert past.status.containers_status[0].terminationStatus.reason == SLA_AWARE
    v0 = await running.tasks.Get(task_pb2.GetRequest(jobId=job_id(), instanceId=0))
    assert [each.runtime.terminationStatus.reason for each in v0.results] == [0, SLA_AWARE]


async def test_a_stopped_pod_is_started_which_makes_no_other_unavailable(running: Served) -> None:
    await running.pods.StopPod(pb.StopPodRequest(pod_name=request(0).pod_name))
    assert (await availability(running)) == {0: "KILLED", 1: "AVAILABLE", 2: "AVAILABLE"}
    await running.pods.RestartPod(request(0))
    await report(running, TaskState.KILLED, 0)
    await report(running, TaskState.RUNNING, 0, run=2)
    assert (await availability(running)) == {0: "AVAILABLE", 1: "AVAILABLE", 2: "AVAILABLE"}


async def test_wrong_states_and_pods(running: Served) -> None:
    await running.pods.RestartPod(request(0))
    await running.pods.RestartPod(request(1, check_sla=False))
    with status(grpc.StatusCode.NOT_FOUND, OTHER):
        await running.pods.RestartPod(request(0, of=OTHER))
    with status(grpc.StatusCode.NOT_FOUND, "the job has 3 instances"):
        await running.pods.RestartPod(request(3))
    with status(grpc.StatusCode.INVALID_ARGUMENT, "pod_name"):
        await running.pods.RestartPod(pb.RestartPodRequest(check_sla=True))
    await Workflows(running.engine).stop_job(JOB)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "a job that is being stopped"):
        await running.pods.RestartPod(request(2))
    await report(running, TaskState.KILLED, 0, 1, 2)
    with status(grpc.StatusCode.FAILED_PRECONDITION, "a job that is stopped"):
        await running.pods.RestartPod(request(2))


async def test_batch_jobs_have_no_such_limit(real: Served) -> None:
    await real.create("sla { maximumUnavailableInstances: 1 }")
    await states(real, [task_pb2.INITIALIZED] * 3)
    await report(real, TaskState.RUNNING, 0, 1, 2)
    for instance in range(3):
        await real.pods.RestartPod(request(instance))
    await states(real, [task_pb2.KILLING] * 3)


async def test_a_failed_pod_is_throttled_until_it_is_stopped(running: Served) -> None:
    assert await throttled(running) == []
    await report(running, TaskState.FAILED, 2)
    for _ in range(2):
        assert await throttled(running) == [f"{JOB}-2"]
    assert (await availability(running, 2)) == {2: "UNAVAILABLE"}
    await running.pods.StopPod(pb.StopPodRequest(pod_name=request(2).pod_name))
    assert await throttled(running) == []


async def test_a_crash_loop_is_the_reason_of_the_state_and_can_be_selected(running: Served) -> None:
    other = stateless_svc_pb2.CreateJobRequest(job_id=v1alpha_job_id(OTHER), spec=job())
    await running.services.CreateJob(other)
    assert await crash_looping(running) == []
    await report(running, TaskState.FAILED, 0, 2)
    assert await crash_looping(running) == [JOB]
    found = await running.services.GetJob(stateless_svc_pb2.GetJobRequest(job_id=v1alpha_job_id()))
    status = found.job_info.status
    assert status.throttled_pods == 2
    second = status.next_try_time.partition(".")[0]
    assert status.reason == (f"crash-looping: 2 of 3 instances wait after failures, next try at {second}Z")
    wait = parse_rfc3339(status.next_try_time) - running.engine.job(JOB).tasks[0].updated_at
    assert wait == 30 * NANOSECONDS
    await report(running, TaskState.FAILED, 1)
    old = (await running.jobs.Get(job_pb2.GetRequest(id=job_id()))).jobInfo.runtime
    assert (old.state, old.throttledInstances) == (job_pb2.PENDING, 3)
    assert old.reason.startswith("crash-looping: 3 of 3 instances wait")
    for instance in range(3):
        await running.pods.StopPod(pb.StopPodRequest(pod_name=request(instance).pod_name))
    assert await crash_looping(running) == []
    seen = (await running.services.GetJob(stateless_svc_pb2.GetJobRequest(job_id=v1alpha_job_id()))).job_info
    assert (seen.status.state, seen.status.reason) == (stateless_pb2.JOB_STATE_KILLED, "")
    assert seen.status.desired_state == stateless_pb2.JOB_STATE_RUNNING
    await running.services.DeleteJob(
        stateless_svc_pb2.DeleteJobRequest(job_id=v1alpha_job_id(), version=seen.status.version)
    )


async def crash_looping(served: Served) -> list[str]:
    """Return the services that both APIs find to crash-loop."""
    spec = stateless_pb2.QuerySpec(crash_looping=True)
    new = await served.services.QueryJobs(stateless_svc_pb2.QueryJobsRequest(spec=spec))
    old = await served.jobs.Query(job_pb2.QueryRequest(spec=job_pb2.QuerySpec(crashLooping=True)))
    assert [each.job_id.value for each in new.records] == [each.id.value for each in old.results]
    assert new.pagination.total == len(new.records)
    return [each.job_id.value for each in new.records]

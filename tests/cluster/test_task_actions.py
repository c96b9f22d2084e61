"""What users do to a batch job while it runs: add instances, stop, start and restart some, stop all."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, wait_for

SECONDS = 60.0
FOREVER = "sleep 600"


def named(*instances: int) -> list[task_pb2.InstanceRange]:
    return [task_pb2.InstanceRange(**{"from": each, "to": each + 1}) for each in instances]


class Job:
    """A job that runs until it is stopped."""

    def __init__(self, harness: Harness, instances: int) -> None:
        self.harness = harness
        self.config = harness.config(FOREVER, instances)
        self.id = harness.create(self.config)
        self.wire = peloton_pb2.JobID(value=self.id)
        self.await_states(["RUNNING"] * instances)

    def await_states(self, wanted: list[str]) -> None:
        wait_for(lambda: self.states() == wanted, SECONDS, lambda: str(self.harness.tasks(self.id)))

    def states(self) -> list[str]:
        tasks = self.harness.tasks(self.id)
        return [task_pb2.TaskState.Name(tasks[i].runtime.state) for i in sorted(tasks)]

    def run(self, instance: int) -> int:
        return int(self.harness.tasks(self.id)[instance].runtime.mesosTaskId.value.rpartition("-")[2])

    def stop(self, *instances: int) -> task_pb2.StopResponse:
        request = task_pb2.StopRequest(jobId=self.wire, ranges=named(*instances))
        answer: task_pb2.StopResponse = self.harness.client.task_svc.Stop(request, timeout=SECONDS)
        return answer


def test_stop_start_and_restart_instances(harness: Harness) -> None:
    job, tasks = Job(harness, 3), harness.client.task_svc
    assert list(job.stop(1).stoppedInstanceIds) == [1]
    job.await_states(["RUNNING", "KILLED", "RUNNING"])
    assert harness.tasks(job.id)[1].runtime.terminationStatus.reason == (
        task_pb2.TerminationStatus.TERMINATION_STATUS_REASON_KILLED_ON_REQUEST
    )

    started = tasks.Start(task_pb2.StartRequest(jobId=job.wire, ranges=named(0, 1)), timeout=SECONDS)
    assert list(started.startedInstanceIds) == [1] and list(started.invalidInstanceIds) == [0]
    job.await_states(["RUNNING"] * 3)
    assert [job.run(i) for i in range(3)] == [1, 2, 1]

    tasks.Restart(task_pb2.RestartRequest(jobId=job.wire, ranges=named(2)), timeout=SECONDS)
    wait_for(lambda: job.run(2) == 2 and job.states() == ["RUNNING"] * 3, SECONDS, lambda: str(job.states()))

    assert list(job.stop().stoppedInstanceIds) == [0, 1, 2]
    assert harness.ended(job.id).state == job_pb2.KILLED
    with pytest.raises(grpc.RpcError) as failure:
        tasks.Start(task_pb2.StartRequest(jobId=job.wire), timeout=SECONDS)
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert failure.value.details() == "cannot start tasks in a terminated job"
    harness.client.job_svc.Delete(job_pb2.DeleteRequest(id=job.wire), timeout=SECONDS)
    found = harness.client.job_svc.Get(job_pb2.GetRequest(id=job.wire), timeout=SECONDS)
    assert found.error.HasField("notFound")


def test_add_instances_while_it_runs(harness: Harness) -> None:
    job, jobs = Job(harness, 2), harness.client.job_svc
    job.config.instanceCount = 4
    job.config.ClearField("respoolID")
    answer = jobs.Update(job_pb2.UpdateRequest(id=job.wire, config=job.config), timeout=SECONDS)
    assert not answer.HasField("error"), answer
    job.await_states(["RUNNING"] * 4)
    assert [job.run(i) for i in range(4)] == [1] * 4
    job.config.instanceCount = 3
    refused = jobs.Update(job_pb2.UpdateRequest(id=job.wire, config=job.config), timeout=SECONDS)
    assert "cannot shrink" in refused.error.invalidConfig.message
    jobs.Stop(job_pb2.StopRequest(id=job.wire), timeout=SECONDS)
    assert harness.ended(job.id).taskStats["KILLED"] == 4


def test_instances_are_added_and_released_again_and_again(harness: Harness, tmp_path: Path) -> None:
    """No number has two runs at a time; a new instance has the next run, even where a leader falls."""
    here = f"{tmp_path}/$PELOTON_INSTANCE_ID"
    # The trap comes first: a run may be ended before its command has done anything.
    alone = f"trap 'rmdir {here}; exit 1' TERM; mkdir {here} || touch {tmp_path}/twice; sleep 600 & wait"
    config = harness.config(FOREVER)
    config.defaultConfig.command.value = alone
    job_id = harness.create(config)
    client, wire = harness.client, peloton_pb2.JobID(value=job_id)

    def states() -> dict[int, str]:
        tasks = harness.tasks(job_id)
        return {i: task_pb2.TaskState.Name(tasks[i].runtime.state) for i in sorted(tasks)}

    def await_running(*numbers: int) -> None:
        wanted = dict.fromkeys(numbers, "RUNNING")
        wait_for(lambda: states() == wanted, 2 * SECONDS, lambda: str(states()))

    await_running(0)
    for number in range(1, 7):
        config.instanceCount = 5
        answer = client.job_svc.Update(job_pb2.UpdateRequest(id=wire, config=config), timeout=SECONDS)
        assert list(answer.addedInstances) == [1, 2, 3, 4], answer
        await_running(0, 1, 2, 3, 4)
        runs = {i: int(task.runtime.mesosTaskId.value[-1]) for i, task in harness.tasks(job_id).items()}
        assert runs == {0: 1, 1: number, 2: number, 3: number, 4: number}
        assert client.jobs.release(job_id, [4, 1, 2, 3]) == [1, 2, 3, 4]
        if number == 3:
            harness.cluster.kill(["jobmgr0"])
            harness.cluster.start(["jobmgr0"])
        await_running(0)
        info = client.jobs.get(job_id)
        assert (info.config.instanceCount, info.runtime.releasedInstances) == (1, 4)
        assert dict(info.runtime.taskStats) == {"RUNNING": 1}
        wait_for(lambda: [each.name for each in tmp_path.iterdir()] == ["0"], SECONDS)
    request = task_pb2.GetPodEventsRequest(jobId=wire, instanceId=3)
    events = client.task_svc.GetPodEvents(request, timeout=SECONDS).result
    assert {each.taskId.value for each in events} == {f"{job_id}-3-{run}" for run in range(1, 7)}
    client.jobs.release(job_id, [3])
    assert [each.instanceId for each in client.jobs.instances(job_id)] == [0]
    client.job_svc.Stop(job_pb2.StopRequest(id=wire), timeout=SECONDS)
    assert dict(harness.ended(job_id).taskStats) == {"KILLED": 1}

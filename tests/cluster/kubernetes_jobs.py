"""What jobs of users do on a cluster of Kubernetes, whose API server the importing module chooses."""

from __future__ import annotations

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.cluster.conftest import Harness, wait_for

__all__ = [
    "test_a_batch_job",
    "test_a_service_outlives_the_host_manager",
    "test_a_task_that_cannot_run_on_kubernetes_says_why",
    "test_a_task_that_fails_is_tried_again",
]


def test_a_batch_job(harness: Harness) -> None:
    job = harness.create(harness.config("exit 0", 30))
    assert dict(harness.ended(job).taskStats) == {"SUCCEEDED": 30}
    assert all(task.runtime.startTime for task in harness.tasks(job).values())
    hosts = {task.runtime.host for task in harness.tasks(job).values()}
    assert hosts <= {"node0", "node1", "node2"}


def test_a_task_that_fails_is_tried_again(harness: Harness) -> None:
    job = harness.create(harness.config("exit 7"))
    assert harness.ended(job).state == job_pb2.FAILED
    runtime = harness.tasks(job)[0].runtime
    assert (runtime.message, runtime.failureCount) == ("Command exited with status 7", 3)


def test_a_task_that_cannot_run_on_kubernetes_says_why(harness: Harness) -> None:
    config = harness.config("true")
    config.defaultConfig.command.uris.append(mesos_pb2.CommandInfo.URI(value="http://127.0.0.1:1/x"))
    job = harness.create(config)
    assert harness.ended(job).state == job_pb2.FAILED
    assert "command.uris" in harness.tasks(job)[0].runtime.message


def test_a_service_outlives_the_host_manager(harness: Harness) -> None:
    """Its pods run on while hostmgr is gone, are found again, and end when the job is stopped."""
    config = harness.config("sleep 1000", 2, type=job_pb2.SERVICE)
    job = harness.create(config)
    before = {number: harness.running(job, number).mesosTaskId.value for number in range(2)}
    harness.cluster.kill(["hostmgr0"])
    harness.cluster.start(["hostmgr0"])
    other = harness.create(harness.config("exit 0", 3))
    assert harness.ended(other).state == job_pb2.SUCCEEDED
    assert {number: harness.running(job, number).mesosTaskId.value for number in range(2)} == before
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    assert not harness.client.task_svc.Stop(request, timeout=30).HasField("error")
    wait_for(
        lambda: all(task.runtime.state == task_pb2.KILLED for task in harness.tasks(job).values()),
        60,
        lambda: str(harness.tasks(job)),
    )

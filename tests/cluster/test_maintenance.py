"""Maintenance of hosts on a minicluster: tasks move away, the host goes down, and comes back."""

from __future__ import annotations

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness, wait_for
from .test_minicluster import agent_of

UP, DOWN = host_pb2.HOST_STATE_UP, host_pb2.HOST_STATE_DOWN
SECONDS = 120.0
"""For a host to go down or come back on a busy machine."""


def states(harness: Harness) -> dict[str, int]:
    answer = harness.client.host_svc.QueryHosts(host_svc_pb2.QueryHostsRequest(), timeout=30)
    return {host.hostname: host.state for host in answer.host_infos}


def start(harness: Harness, *hostnames: str) -> None:
    request = host_svc_pb2.StartMaintenanceRequest(hostnames=hostnames)
    harness.client.host_svc.StartMaintenance(request, timeout=30)


def await_state(harness: Harness, hostname: str, state: int) -> None:
    wait_for(
        lambda: states(harness).get(hostname) == state, SECONDS, lambda: f"{hostname}: {states(harness)}"
    )


def complete(harness: Harness, hostname: str) -> None:
    """End the maintenance of a host, and start its agent again."""
    request = host_svc_pb2.CompleteMaintenanceRequest(hostname=hostname)
    harness.client.host_svc.CompleteMaintenance(request, timeout=30)
    await_state(harness, hostname, UP)
    name = agent_of(harness, hostname)
    harness.cluster.stop([name])
    harness.cluster.start([name])


def test_batch_tasks_move_away_and_the_host_comes_back(harness: Harness) -> None:
    config = harness.config("sleep 600", 6)
    config.defaultConfig.restartPolicy.maxFailures = 0
    job = harness.create(config)
    for instance in range(6):
        harness.running(job, instance)
    host = harness.running(job).host
    moved = [i for i, task in harness.tasks(job).items() if task.runtime.host == host]
    start(harness, host)
    await_state(harness, host, DOWN)
    wait_for(
        lambda: all(
            task.runtime.state == task_pb2.RUNNING and task.runtime.host != host
            for task in harness.tasks(job).values()
        ),
        SECONDS,
        lambda: str(harness.waiting(job)),
    )
    tasks = harness.tasks(job)
    for instance in moved:
        runtime = tasks[instance].runtime
        assert (runtime.mesosTaskId.value, runtime.failureCount) == (f"{job}-{instance}-2", 0)
    for instance in set(tasks) - set(moved):
        assert tasks[instance].runtime.mesosTaskId.value == f"{job}-{instance}-1"
    complete(harness, host)
    other = harness.create(harness.config("true", 3))
    assert harness.ended(other).state == job_pb2.SUCCEEDED

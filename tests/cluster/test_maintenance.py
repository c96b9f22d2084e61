"""Maintenance of hosts on a minicluster: tasks move away, the host goes down, and comes back."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2

from .conftest import Harness, wait_for
from .service_job import ServiceJob
from .test_minicluster import agent_of

UP, DOWN = host_pb2.HOST_STATE_UP, host_pb2.HOST_STATE_DOWN
SECONDS = 120.0
"""For a host to go down or come back on a busy machine."""
ENDED = (task_pb2.SUCCEEDED, task_pb2.FAILED, task_pb2.KILLED, task_pb2.LOST, task_pb2.DELETED)
HOST_KIND = pod_pb2.LabelConstraint.LABEL_CONSTRAINT_KIND_HOST
EQUAL = pod_pb2.LabelConstraint.LABEL_CONSTRAINT_CONDITION_EQUAL


def states(harness: Harness) -> dict[str, int]:
    """The states of hosts; one whose agent is still to register after its maintenance is lost, not UP."""
    request = host_svc_pb2.QueryHostsRequest(include_lost=True)
    answer = harness.client.host_svc.QueryHosts(request, timeout=30)
    return {host.hostname: host.state for host in answer.host_infos}


def start(harness: Harness, *hostnames: str) -> None:
    request = host_svc_pb2.StartMaintenanceRequest(hostnames=hostnames)
    harness.client.host_svc.StartMaintenance(request, timeout=30)


def await_state(harness: Harness, hostname: str, state: int) -> None:
    wait_for(
        lambda: states(harness).get(hostname) == state, SECONDS, lambda: f"{hostname}: {states(harness)}"
    )


def await_all_up(harness: Harness) -> list[str]:
    """Wait until all three hosts are up, also that whose agent was started last; return their names."""
    wait_for(lambda: list(states(harness).values()) == [UP] * 3, SECONDS, lambda: str(states(harness)))
    return sorted(states(harness))


def complete(harness: Harness, hostname: str) -> None:
    """End the maintenance of a host, and start its agent again."""
    request = host_svc_pb2.CompleteMaintenanceRequest(hostname=hostname)
    harness.client.host_svc.CompleteMaintenance(request, timeout=30)
    name = agent_of(harness, hostname)
    harness.cluster.stop([name])
    harness.cluster.start([name])
    await_state(harness, hostname, UP)


def peloton(harness: Harness, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command of `peloton host maintenance`, which ends with an exit code."""
    command = [sys.executable, "-m", "peloton.cli", "host", "maintenance", *arguments]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **harness.cluster.urls()},
    )
    assert result.returncode == code, result
    return result


def daemon_config(harness: Harness) -> job_pb2.JobConfig:
    config = harness.config("exec sleep 600", 0, type=job_pb2.DAEMON)
    config.sla.preemptible = False
    return config


def hosts_of(harness: Harness, job: str) -> list[str]:
    """The hosts of a job's running tasks."""
    tasks = harness.tasks(job).values()
    return sorted(task.runtime.host for task in tasks if task.runtime.state == task_pb2.RUNNING)


def by_host(harness: Harness, job: str) -> dict[str, list[int]]:
    """The instances that run on each host."""
    found: dict[str, list[int]] = {}
    for instance, task in sorted(harness.tasks(job).items()):
        if task.runtime.state == task_pb2.RUNNING:
            found.setdefault(task.runtime.host, []).append(instance)
    return found


def stop(harness: Harness, job: str) -> None:
    """Stop a job, and wait until its tasks have ended."""
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(request, timeout=30)
    wait_for(
        lambda: all(task.runtime.state in ENDED for task in harness.tasks(job).values()),
        SECONDS,
        lambda: str(harness.tasks(job)),
    )


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
    stop(harness, job)


@pytest.mark.extended
def test_a_service_keeps_its_sla_while_leaders_die(harness: Harness) -> None:
    daemon = harness.create(daemon_config(harness))
    wait_for(lambda: len(hosts_of(harness, daemon)) == 3, SECONDS, lambda: str(harness.tasks(daemon)))

    def slow(spec: stateless_pb2.JobSpec) -> None:
        spec.sla.maximum_unavailable_instances = 1
        entrypoint = spec.default_spec.containers[0].entrypoint
        entrypoint.value = 'trap "sleep 2; exit 0" TERM; while true; do sleep 0.2; done'

    service = ServiceJob(harness, 4, slow)
    service.await_states(*[pod_pb2.POD_STATE_RUNNING] * 4)
    job = service.id.value
    host, moved = max(by_host(harness, job).items(), key=lambda item: len(item[1]))
    start(harness, host)
    seen: list[int] = []

    def await_left(most: int) -> None:
        def few() -> bool:
            found = by_host(harness, job)
            seen.append(sum(map(len, found.values())))
            return len(found.get(host, ())) <= most

        wait_for(few, SECONDS, lambda: f"{states(harness)} {harness.tasks(job)}")

    for number, leader in enumerate(("jobmgr0", "resmgr0", "hostmgr0"), 1):
        await_left(max(len(moved) - number, 0))
        harness.cluster.kill([leader])
        harness.cluster.start([leader])
    await_state(harness, host, DOWN)
    service.await_states(*[pod_pb2.POD_STATE_RUNNING] * 4)
    assert min(seen) >= 3, seen
    assert [service.run(instance) for instance in moved] == [2] * len(moved)
    assert host not in hosts_of(harness, daemon) and host not in by_host(harness, job)
    complete(harness, host)
    wait_for(lambda: len(hosts_of(harness, daemon)) == 3, SECONDS, lambda: str(harness.tasks(daemon)))
    stop(harness, daemon)
    stop(harness, job)


def test_the_last_host_of_a_service_dies_while_it_drains(harness: Harness) -> None:
    """One of two instances has no other host: the SLA keeps the second one until the host is gone."""
    host = await_all_up(harness)[0]

    def bound(spec: stateless_pb2.JobSpec) -> None:
        spec.name = "bound"
        spec.sla.maximum_unavailable_instances = 1
        label = pod_pb2.LabelConstraint(kind=HOST_KIND, condition=EQUAL, requirement=1)
        label.label.key, label.label.value = "hostname", host
        spec.default_spec.constraint.type = pod_pb2.Constraint.CONSTRAINT_TYPE_LABEL
        spec.default_spec.constraint.label_constraint.CopyFrom(label)

    service = ServiceJob(harness, 2, bound)
    service.await_states(*[pod_pb2.POD_STATE_RUNNING] * 2)
    started = peloton(harness, "start", host)
    assert started.stdout.startswith(f"Host {host} is DRAINING: 2 tasks to move, then it goes DOWN\n"), (
        started
    )
    assert (
        f"{host} is the last host that can run job bound ({service.id.value}): 2 of its 2" in started.stderr
    )
    blocked = "but the SLA would break: 1 instance is unavailable"
    wait_for(lambda: blocked in peloton(harness, "status").stdout, SECONDS, lambda: str(service.list()))
    again = peloton(harness, "start", host)
    assert re.match(rf"Host {host} is DRAINING since \S+Z: 1 task is left\n", again.stdout), again
    refused = peloton(harness, "complete", host, code=1)
    assert f"host {host} is DRAINING, not DOWN: 1 task is left" in refused.stderr
    harness.cluster.stop([agent_of(harness, host)])
    await_state(harness, host, DOWN)
    completed = peloton(harness, "complete", host)
    assert (
        completed.stdout
        == f"Host {host} is not in maintenance any longer: start its agent, which is not registered\n"
    )
    harness.cluster.start([agent_of(harness, host)])
    service.await_states(*[pod_pb2.POD_STATE_RUNNING] * 2)
    stop(harness, service.id.value)


def test_several_hosts_at_once_and_what_is_refused(harness: Harness) -> None:
    first, second, third = await_all_up(harness)
    unknown = peloton(harness, "start", f"{second},nosuch", code=1)
    assert "host nosuch is unknown: no agent of this name is registered; 3 hosts are" in unknown.stderr
    refused = peloton(harness, "complete", third, code=1)
    assert f"host {third} is UP, not DOWN: it has no maintenance to complete" in refused.stderr
    assert set(states(harness).values()) == {UP}
    peloton(harness, "start", first, second)
    for host in (first, second):
        await_state(harness, host, DOWN)
    for host in (first, second):
        complete(harness, host)
    await_all_up(harness)

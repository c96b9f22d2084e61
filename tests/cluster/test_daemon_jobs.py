"""A daemon job on a whole cluster: one instance on each host, as agents and leaders come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v0.update import update_pb2
from peloton.api.v0.update.svc import update_svc_pb2 as updates_pb
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.wire.constraint import constraint_to

from .conftest import Harness, messages, wait_for

SECONDS = 60.0
HOSTS = [f"peloton-mesos-agent{i}" for i in range(3)]
COMMAND = 'echo "version 1"; exec sleep 600'


class DaemonJob:
    def __init__(self, harness: Harness, command: str = COMMAND, **task: Any) -> None:
        """`task`: fields of its instances' config."""
        self.harness = harness
        self.config = harness.config(command, 0, type=job_pb2.DAEMON)
        self.config.sla.preemptible = False
        self.config.defaultConfig.MergeFrom(task_pb2.TaskConfig(**task))
        self.id = harness.create(self.config)
        self.job_id = peloton_pb2.JobID(value=self.id)
        self.jobs = harness.client.stateless_svc

    def pods(self) -> list[pod_pb2.PodSummary]:
        request = jobs_pb.ListPodsRequest(job_id=self.job_id)
        answers = messages(lambda: self.jobs.ListPods(request, timeout=SECONDS))
        return [pod for answer in answers for pod in answer.pods]

    def hosts(self, state: int = pod_pb2.POD_STATE_RUNNING) -> list[str]:
        return sorted(pod.status.host for pod in self.pods() if pod.status.state == state)

    def await_hosts(self, *hosts: str) -> None:
        def there() -> bool:
            return len(self.pods()) == len(hosts) and self.hosts() == sorted(hosts)

        wait_for(there, 90, lambda: str(self.pods()))

    def pod_ids(self) -> dict[str, str]:
        return {pod.status.host: pod.status.pod_id.value for pod in self.pods()}

    def config_now(self) -> job_pb2.JobConfig:
        request = job_pb2.GetRequest(id=v0_peloton.JobID(value=self.id))
        got: job_pb2.GetResponse = self.harness.client.job_svc.Get(request, timeout=SECONDS)
        return got.jobInfo.config

    def summary(self) -> stateless_pb2.JobSummary:
        request = jobs_pb.GetJobRequest(job_id=self.job_id, summary_only=True)
        answer: jobs_pb.GetJobResponse = self.jobs.GetJob(request, timeout=SECONDS)
        return answer.summary

    @property
    def version(self) -> peloton_pb2.EntityVersion:
        return self.summary().status.version

    def await_state(self, state: int) -> None:
        wait_for(lambda: self.summary().status.state == state, 60, lambda: str(self.summary()))

    def delete(self) -> None:
        request = jobs_pb.DeleteJobRequest(job_id=self.job_id, version=self.version, force=True)
        self.jobs.DeleteJob(request, timeout=SECONDS)


@pytest.fixture
def job(harness: Harness) -> Iterator[DaemonJob]:
    made = DaemonJob(harness)
    yield made
    made.delete()


def test_one_instance_on_each_host_which_both_apis_show(harness: Harness, job: DaemonJob) -> None:
    job.await_hosts(*HOSTS)
    config = job.config_now()
    assert (config.type, config.instanceCount) == (job_pb2.DAEMON, 3)
    tasks = harness.tasks(job.id)
    assert {task.runtime.host for task in tasks.values()} == set(HOSTS)
    assert job.summary().instance_count == 3
    assert job.summary().status.state == stateless_pb2.JOB_STATE_RUNNING
    query = job_pb2.QueryRequest(spec=job_pb2.QuerySpec(name="test"))
    answer = harness.client.job_svc.Query(query, timeout=SECONDS)
    (found,) = [each for each in answer.results if each.id.value == job.id]
    assert (found.type, found.instanceCount) == (job_pb2.DAEMON, 3)


def test_instances_follow_agents(harness: Harness, job: DaemonJob) -> None:
    job.await_hosts(*HOSTS)
    before = job.pod_ids()
    harness.cluster.stop(["mesos-agent1"])
    job.await_hosts(HOSTS[0], HOSTS[2])
    assert job.summary().instance_count == 2
    harness.cluster.start(["mesos-agent1"])
    job.await_hosts(*HOSTS)
    after = job.pod_ids()
    assert [after[host] for host in (HOSTS[0], HOSTS[2])] == [before[host] for host in (HOSTS[0], HOSTS[2])]
    name, _, run = before[HOSTS[1]].rpartition("-")
    back, _, later = after[HOSTS[1]].rpartition("-")
    assert back == name, "the host has the instance that it had"
    assert int(later) > int(run)


@pytest.mark.extended
def test_leaders_that_die_change_nothing(harness: Harness, job: DaemonJob) -> None:
    job.await_hosts(*HOSTS)
    before = job.pod_ids()
    for daemon in ("jobmgr0", "resmgr0", "hostmgr0"):
        harness.cluster.kill([daemon])
        harness.cluster.start([daemon])
    job.await_hosts(*HOSTS)
    assert job.pod_ids() == before
    harness.cluster.stop(["mesos-agent0"])
    job.await_hosts(HOSTS[1], HOSTS[2])
    harness.cluster.start(["mesos-agent0"])
    job.await_hosts(*HOSTS)


def test_stop_and_start(harness: Harness, job: DaemonJob) -> None:
    job.await_hosts(*HOSTS)
    job.jobs.StopJob(jobs_pb.StopJobRequest(job_id=job.job_id, version=job.version), timeout=SECONDS)
    job.await_state(stateless_pb2.JOB_STATE_KILLED)
    assert len(job.hosts(pod_pb2.POD_STATE_KILLED)) == 3
    job.jobs.StartJob(jobs_pb.StartJobRequest(job_id=job.job_id, version=job.version), timeout=SECONDS)
    job.await_hosts(*HOSTS)


def test_an_update_goes_over_all_hosts(harness: Harness, job: DaemonJob) -> None:
    job.await_hosts(*HOSTS)
    hosts_of = {pod.pod_name.value: pod.status.host for pod in job.pods()}
    config = job.config_now()
    config.defaultConfig.command.value = COMMAND.replace("version 1", "version 2")
    request = updates_pb.CreateUpdateRequest(
        jobId=v0_peloton.JobID(value=job.id),
        jobConfig=config,
        updateConfig=update_pb2.UpdateConfig(batchSize=1),
    )
    update_id = harness.client.update_svc.CreateUpdate(request, timeout=SECONDS).updateID

    def state() -> int:
        wanted = updates_pb.GetUpdateRequest(updateId=update_id)
        got = harness.client.update_svc.GetUpdate(wanted, timeout=SECONDS)
        return int(got.updateInfo.status.state)

    wait_for(lambda: state() == update_pb2.SUCCEEDED, 90, lambda: str(job.pods()))
    job.await_hosts(*HOSTS)
    assert {pod.pod_name.value: pod.status.host for pod in job.pods()} == hosts_of
    assert all(pod_id.endswith("-2") for pod_id in job.pod_ids().values())
    commands = {task.config.command.value for task in harness.tasks(job.id).values()}
    assert commands == {config.defaultConfig.command.value}


def test_a_constraint_chooses_the_hosts(harness: Harness) -> None:
    not_on_1 = LabelConstraint(Kind.HOST, Condition.EQUAL, ("hostname", HOSTS[1]), 0)
    job = DaemonJob(harness, constraint=constraint_to(not_on_1))
    try:
        job.await_hosts(HOSTS[0], HOSTS[2])
    finally:
        job.delete()


def test_an_instance_waits_for_room_on_its_host_and_says_so(harness: Harness) -> None:
    first = DaemonJob(harness, resource=task_pb2.ResourceConfig(memLimitMb=1600))
    first.await_hosts(*HOSTS)
    second = DaemonJob(harness, resource=task_pb2.ResourceConfig(memLimitMb=460))
    try:
        wait_for(
            lambda: any(
                "waits for host" in each.runtime.reason for each in harness.tasks(second.id).values()
            ),
            60,
            lambda: str(harness.tasks(second.id)),
        )
        assert second.hosts() == []
    finally:
        first.delete()
    second.await_hosts(*HOSTS)
    second.delete()


def test_a_task_that_fails_runs_again_on_its_host(harness: Harness) -> None:
    job = DaemonJob(harness, "test $PELOTON_INSTANCE_ID != 1 || test -e ../../ran || exit 1; sleep 600")
    try:
        wait_for(
            lambda: any(task.runtime.failureCount for task in harness.tasks(job.id).values()),
            60,
            lambda: str(harness.tasks(job.id)),
        )
        failed = next(t for t in harness.tasks(job.id).values() if t.runtime.failureCount)
        assert failed.runtime.desiredHost == HOSTS[1]
        assert failed.runtime.state in (task_pb2.FAILED, task_pb2.INITIALIZED, task_pb2.PENDING)
    finally:
        job.delete()

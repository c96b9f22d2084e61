"""What the maintenance of hosts would mean for jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.job.host_needs import (
    host_pool,
    is_bound_to_hosts,
    task_specs,
    with_volumes_on,
    without_a_host,
)
from jobmgr.core.state.cache import CachedJob
from peloton.model.host_pool import implicit_pool
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, JobType, TaskState
from peloton.model.volume import VolumeSpec
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_availability import task


def job(instances: int = 3, goal: JobState = JobState.RUNNING) -> CachedJob:
    runtime = JobRuntime(JobState.RUNNING, goal, 1, 0)
    return CachedJob(JOB, replace(spec(instances), name="web"), runtime)


def test_equal_specs_come_once_with_their_numbers() -> None:
    plain = spec(4)
    other, another = replace(plain.default, max_failures=7), replace(plain.default, max_failures=8)
    mixed = replace(plain, overrides={0: other, 2: other, 3: another})
    assert task_specs(plain) == [(plain.default, 4)]
    assert sorted(count for _, count in task_specs(mixed)) == [1, 1, 2]
    assert [each for each, _ in task_specs(replace(plain, overrides=dict.fromkeys(range(4), other)))] == [
        other
    ]


def test_the_host_pool_of_each_kind_of_instance() -> None:
    service = spec(1)
    batch = replace(service, type=JobType.BATCH)
    pools = [
        host_pool(
            replace(batch, sla=replace(batch.sla, preemptible=job)), replace(batch.default, preemptible=own)
        )
        for job in (True, False)
        for own in (None, True, False)
    ]
    assert pools == ["shared", "shared", "batch_reserved", "batch_reserved", "shared", "batch_reserved"]
    service = replace(service, type=JobType.SERVICE)
    assert host_pool(service, service.default) == "stateless"
    for each in (batch, service):
        assert host_pool(each, each.default) == implicit_pool(each.task_type(0), each.preemptible(0))


LAST = "{} that can run job web (" + JOB + "): 3 of its 3 instances would wait until {} UP again"
CASES: list[tuple[list[str], list[str], str]] = [
    ([], ["a"], ""),
    (["a", "b"], ["a"], ""),
    (["b"], ["a"], ""),
    (["a"], ["c", "a"], LAST.format("a is the last host", "the host is")),
    (["a", "b"], ["b", "a"], LAST.format("b, a are the last hosts", "one of the hosts is")),
]


@pytest.mark.parametrize(("hosts", "leaving", "text"), CASES)
def test_the_last_hosts_of_a_job(hosts: list[str], leaving: list[str], text: str) -> None:
    concern = without_a_host(job(), [(3, hosts)], leaving)
    assert (str(concern) if concern else "") == text


def test_instances_that_differ_are_counted_apart() -> None:
    concern = without_a_host(job(), [(2, ["a", "b"]), (1, ["a"])], ["a"])
    assert concern is not None and (concern.instances, concern.hosts) == (1, ("a",))
    only = without_a_host(job(1), [(1, ["a"])], ["a"])
    assert "its only instance would wait" in str(only)


def test_volumes_bind_instances_to_hosts() -> None:
    held = job(2)
    default = replace(held.spec.default, volume=VolumeSpec(10, "data"))
    held.specs[1] = held.spec = replace(held.spec, default=default)
    row = replace(task(TaskState.RUNNING), desired_host="a", volume_id="v")
    held.fill({0: row, 1: replace(row, desired_host="b")})
    concern = with_volumes_on(held, ["a", "c"])
    assert str(concern) == (
        f"job web ({JOB}): 1 of its 2 instances would wait until the host is UP again: volumes are on a"
    )
    assert with_volumes_on(held, ["c"]) is None


def test_jobs_that_end_or_follow_the_hosts_do_not_count() -> None:
    assert is_bound_to_hosts(job())
    assert not is_bound_to_hosts(job(goal=JobState.KILLED))
    daemon = job()
    daemon.spec = replace(daemon.spec, type=JobType.DAEMON)
    assert not is_bound_to_hosts(daemon)

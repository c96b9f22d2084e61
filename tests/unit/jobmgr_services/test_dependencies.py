"""What a new job may name in `dependsOn`."""

from __future__ import annotations

import pytest

from jobmgr.services.v0.jobs import JobManager
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument
from peloton.model.dependency import Dependency, DependencyEnd
from peloton.wire.job import job_spec
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from peloton.wire.validation.job import validated
from tests.unit.jobmgr_services.configs import job
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.fakes import NOW

OTHER = "b0000000-0000-4000-8000-00000000000b"
THIRD = "c0000000-0000-4000-8000-00000000000c"


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("dependsOn {}", "dependsOn[0].job", "the name or the id"),
        ('dependsOn { job: "a" } type: SERVICE', "dependsOn", "only batch jobs"),
        ('dependsOn { job: "a" } dependsOn { job: "a" }', "dependsOn[1].job", r"dependsOn\[0\]"),
        ('dependsOn { job: "a" } ' * 101, "dependsOn", "at most 100"),
    ],
)
def test_what_the_config_alone_tells(text: str, field: str, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as refused:
        validated(job(text))
    assert refused.value.field == field


def test_an_unknown_end_is_refused() -> None:
    config = job('dependsOn { job: "a" }')
    config.dependsOn[0].end = 7  # type: ignore[assignment]
    with pytest.raises(InvalidArgument, match="DEPENDENCY_END_ENDED"):
        validated(config)


def test_both_apis_have_the_same_dependencies() -> None:
    config = job(f'dependsOn {{ job: "a" end: DEPENDENCY_END_ENDED job_id: "{OTHER}" }}')
    assert job_spec(config, 1).depends_on == (Dependency(OTHER, "a", DependencyEnd.ENDED),)
    assert job_config_of(job_spec_of(config)).dependsOn == config.dependsOn


async def test_a_name_is_looked_up_in_the_pool_of_the_job(served: Served) -> None:
    await served.create('name: "other"', job=OTHER)
    await served.create(job=THIRD)
    answer = await served.create('dependsOn { job: "hello" }')
    assert not answer.HasField("error"), answer
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=JOB))
    shown = (await served.jobs.Get(request)).jobInfo.config.dependsOn
    assert [(each.job, each.job_id) for each in shown] == [("hello", THIRD)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('dependsOn { job: "nobody" }', "the name of a job in the pool /teams/batch"),
        (f'dependsOn {{ job: "{THIRD}" }}', "the id of a job that exists"),
        ('dependsOn { job: "hello" pool: "/nowhere" }', "the path of a pool that exists"),
        ('dependsOn { job: "hello" pool: "/teams" }', "the name of a job in the pool /teams"),
        (f'dependsOn {{ job: "hello" }} dependsOn {{ job: "{OTHER}" }}', "another job than dependsOn[0]"),
    ],
)
async def test_jobs_that_are_not_there(served: Served, text: str, says: str) -> None:
    await served.create(job=OTHER)
    answer = await served.create(text)
    assert says in answer.error.invalidConfig.message


async def test_a_job_of_another_kind_or_that_can_not_succeed(served: Served) -> None:
    await served.create("type: SERVICE", job=OTHER)
    answer = await served.create('dependsOn { job: "hello" }')
    assert "a batch job: this one is a service job" in answer.error.invalidConfig.message


async def test_jobs_that_would_wait_for_each_other(served: Served) -> None:
    await served.create(job=OTHER)
    await served.create(f'dependsOn {{ job: "{OTHER}" }}', job=THIRD)
    clock = ManualClock(epoch=NOW)
    jobs = JobManager(served.engine, served.workflows, clock, new_id=lambda: OTHER)
    with pytest.raises(InvalidArgument, match="a job cannot wait for itself"):
        await jobs.plan_spec(job(f'dependsOn {{ job: "{OTHER}" }}'))
    with pytest.raises(InvalidArgument, match=f"job {THIRD} waits for {OTHER}"):
        await jobs.plan_spec(job(f'dependsOn {{ job: "{THIRD}" }}'))


async def test_an_update_keeps_the_dependencies(served: Served) -> None:
    await served.create(job=OTHER)
    await served.create('dependsOn { job: "hello" }')
    wanted = job('instanceCount: 4 dependsOn { job: "hello" }')
    update = job_pb2.UpdateRequest(id=peloton_pb2.JobID(value=JOB), config=wanted)
    answer = await served.jobs.Update(update)
    assert not answer.HasField("error"), answer
    changed = job_pb2.UpdateRequest(id=peloton_pb2.JobID(value=JOB), config=job("instanceCount: 5"))
    assert "which an update keeps" in (await served.jobs.Update(changed)).error.invalidConfig.message

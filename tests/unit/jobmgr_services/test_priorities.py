"""Priority classes: a job names one, and gets its number when it is created."""

from __future__ import annotations

from typing import Any

import pytest

from jobmgr.config import PriorityClassSettings
from jobmgr.services.common.priorities import with_priority
from jobmgr.services.common.spec_rules import SpecRules
from jobmgr.services.private.scheduling import SchedulingService
from jobmgr.services.v0.jobs import JobManager
from jobmgr.services.v1alpha.jobs import JobService
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument
from peloton.model.job import Sla
from peloton.model.priority import PriorityClass
from peloton.private.jobmgr.scheduling import scheduling_pb2
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from tests.unit.jobmgr_services.configs import SERVICE, job
from tests.unit.jobmgr_services.conftest import Served
from tests.unit.jobmgr_services.fakes import NOW

CLASSES = {
    each.name: each
    for each in (PriorityClass("batch", 10), PriorityClass("production", 100, "what customers wait for"))
}


def config(name: str = "production", priority: int = 0) -> job_pb2.JobConfig:
    return job_pb2.JobConfig(sla=job_pb2.SlaConfig(priorityClass=name, priority=priority))


def test_a_job_gets_the_number_of_its_class() -> None:
    assert with_priority(config(), CLASSES).sla.priority == 100
    assert with_priority(config(priority=100), CLASSES).sla.priority == 100
    spec = stateless_pb2.JobSpec(sla=stateless_pb2.SlaSpec(priority_class="batch"))
    assert with_priority(spec, CLASSES).sla.priority == 10
    plain = config("", 7)
    assert with_priority(plain, CLASSES) is plain


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        (config("prod"), "sla.priorityClass", "production (100), batch (10)"),
        (config(priority=9), "sla.priority", "left out, or 100"),
        (
            stateless_pb2.JobSpec(sla=stateless_pb2.SlaSpec(priority_class="x")),
            "sla.priority_class",
            "one of",
        ),
    ],
)
def test_what_is_refused(given: Any, field: str, says: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        with_priority(given, CLASSES)
    assert refused.value.field == field
    assert says in str(refused.value)


def test_a_cluster_without_classes_says_where_they_come_from() -> None:
    with pytest.raises(InvalidArgument, match="priority_classes of jobmgr"):
        with_priority(config(), {})


def test_jobs_that_exist_and_a_class_that_changes() -> None:
    had = Sla(priority=50, priority_class="production")
    assert with_priority(config(), CLASSES, had, keeps=True).sla.priority == 50
    assert with_priority(config(priority=50), CLASSES, had, keeps=True).sla.priority == 50
    assert with_priority(config(), CLASSES, had).sla.priority == 100
    assert with_priority(config(priority=50), CLASSES, had).sla.priority == 100, "as it was shown"
    assert with_priority(config(priority=50), {}, had).sla.priority == 50, "the class is gone"
    with pytest.raises(InvalidArgument, match="left out, or 100"):
        with_priority(config(priority=51), CLASSES, had)


def test_both_apis_say_the_same_class() -> None:
    spec = job_spec_of(config())
    assert spec.sla.priority_class == "production"
    assert job_config_of(spec).sla.priorityClass == "production"


async def test_what_is_planned_and_stored_has_the_number(served: Served) -> None:
    clock = ManualClock(epoch=NOW)
    jobs = JobManager(served.engine, served.workflows, clock, rules=SpecRules(classes=CLASSES))
    planned = await jobs.plan_spec(job('sla { priorityClass: "batch" }'))
    assert (planned.sla.priority, planned.sla.priority_class) == (10, "batch")
    services = JobService(served.engine, served.workflows, clock, rules=SpecRules(classes=CLASSES))
    spec = job_spec_of(job('sla { priorityClass: "production" }', SERVICE))
    assert (await services.plan_spec(spec)).sla.priority == 100


async def test_the_classes_are_listed_the_highest_first(served: Served) -> None:
    answer = await SchedulingService(served.engine, CLASSES).ListPriorityClasses(
        scheduling_pb2.ListPriorityClassesRequest(), None
    )
    assert [(each.name, each.priority, each.description) for each in answer.classes] == [
        ("production", 100, "what customers wait for"),
        ("batch", 10, ""),
    ]


@pytest.mark.parametrize("name", ["", "Production", "a b", "-a", "a" * 64])
def test_names_that_the_settings_refuse(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        PriorityClassSettings(name=name, priority=1)

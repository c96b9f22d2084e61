"""Jobs with pod templates are tried by clusters before they are accepted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jobmgr.ports.hostmgr import MOST_TRIALS
from jobmgr.services.common.spec_rules import SpecRules
from jobmgr.services.common.template_trials import TemplateTrials
from jobmgr.services.v0.jobs import JobManager
from jobmgr.services.v1alpha.jobs import JobService
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument, PelotonError, Unavailable, Unimplemented
from peloton.wire.v1alpha.job_config import job_spec_of
from tests.unit.jobmgr_services.configs import SERVICE, job
from tests.unit.jobmgr_services.conftest import Served
from tests.unit.jobmgr_services.fakes import NOW

TEMPLATE = "spec: {runtimeClassName: nosuch}"
TOLD = 'RuntimeClass "nosuch" not found in runtimeClassName'


class Cluster:
    """Refuses tasks whose template has a word, and keeps what it was asked."""

    def __init__(self, refused: str = "nosuch", failure: PelotonError | None = None) -> None:
        self.asked: list[task_pb2.TaskConfig] = []
        self._refused = refused
        self._failure = failure

    async def try_tasks(self, configs: Sequence[bytes]) -> Sequence[str]:
        if self._failure is not None:
            raise self._failure
        read = [task_pb2.TaskConfig.FromString(each) for each in configs]
        self.asked += read
        return [TOLD if self._refused in each.podTemplate else "" for each in read]


def templated(template: str = TEMPLATE, type_: str = "") -> job_pb2.JobConfig:
    config = job("", type_) if type_ else job("")
    config.defaultConfig.podTemplate = template
    return config


def managers(served: Served, cluster: Cluster) -> tuple[JobManager, JobService]:
    clock, trials = ManualClock(epoch=NOW), TemplateTrials(cluster)
    made = JobManager(served.engine, served.workflows, clock, rules=SpecRules(trials=trials))
    return made, JobService(served.engine, served.workflows, clock, rules=SpecRules(trials=trials))


async def test_a_job_that_a_cluster_refuses_is_not_created(served: Served) -> None:
    jobs, _ = managers(served, Cluster())
    answer = await jobs.Create(job_pb2.CreateRequest(config=templated()), None)
    assert answer.error.invalidConfig.message == (
        f"defaultConfig.podTemplate: {TEMPLATE!r} is not taken: {TOLD}"
    )


async def test_in_v1alpha_the_words_of_the_cluster_are_as_it_says_them(served: Served) -> None:
    _, services = managers(served, Cluster())
    with pytest.raises(InvalidArgument) as error:
        await services.plan_spec(job_spec_of(templated(type_=SERVICE)))
    assert str(error.value) == f"default_spec.pod_template: {TEMPLATE!r} is not taken: {TOLD}"


async def test_a_job_that_a_cluster_takes_is_planned(served: Served) -> None:
    cluster = Cluster()
    jobs, _ = managers(served, cluster)
    await jobs.plan_spec(templated("spec: {hostname: a}"))
    assert [each.podTemplate for each in cluster.asked] == ["spec: {hostname: a}"]
    await jobs.plan_spec(job(""))
    assert len(cluster.asked) == 1, "without a template nobody is asked"


@pytest.mark.parametrize("failure", [Unavailable("away"), Unimplemented("TryTasks")])
async def test_a_cluster_that_cannot_be_asked_refuses_nothing(served: Served, failure: PelotonError) -> None:
    jobs, _ = managers(served, Cluster(failure=failure))
    await jobs.plan_spec(templated())


async def test_each_template_is_tried_once_with_the_whole_config_of_its_task() -> None:
    config, cluster = templated("spec: {hostname: a}"), Cluster()
    config.instanceCount = 60
    config.defaultConfig.name = "whole"
    for instance in range(50):
        config.instanceConfig[instance].podTemplate = f"spec: {{hostname: h{instance // 2}}}"
    await TemplateTrials(cluster).check(config)
    assert len(cluster.asked) == MOST_TRIALS == len({each.podTemplate for each in cluster.asked})
    assert {each.name for each in cluster.asked} == {"whole"}
    config.instanceConfig[7].podTemplate = TEMPLATE
    with pytest.raises(InvalidArgument, match=r"instanceConfig\[7\]\.podTemplate: .* is not taken"):
        await TemplateTrials(Cluster()).check(config)

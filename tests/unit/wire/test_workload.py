"""Workloads are the same in both APIs, and nothing of them is lost between these."""

from __future__ import annotations

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.workload import workload_pb2
from peloton.errors import InvalidArgument
from peloton.model.workload import (
    NO_JOB_WORKLOAD,
    NO_TASK_WORKLOAD,
    Framework,
    GangPolicy,
    JobWorkload,
    TaskWorkload,
)
from peloton.wire.job import config_payload, job_spec
from peloton.wire.payload import spec_from_v1alpha, v1alpha_spec
from peloton.wire.v1alpha.job_config import job_config_of
from peloton.wire.workload import job_workload
from tests.unit.wire.specs import job

WORKLOADS = """
    workload { framework: FRAMEWORK_TORCH rendezvous: true gang_policy: GANG_POLICY_FAIL }
    default_spec { workload {
        rendezvous_port: "meet" peer { instance: 0 } stop_signal: "SIGINT" grace_seconds: 9
        checkpoint_file: "c/last"
    } }
    instance_spec { key: 1 value { workload { role: "ps" } } }
"""


def test_both_apis_give_the_model_the_same_workloads() -> None:
    spec = spec_from_v1alpha(job(WORKLOADS), version=1)
    assert spec.workload == JobWorkload(Framework.TORCH, True, GangPolicy.FAIL)
    assert spec.default.workload == TaskWorkload(
        "meet", peer=0, stop_signal="SIGINT", grace_seconds=9, checkpoint_file="c/last"
    )
    assert spec.task(1).workload == TaskWorkload(role="ps")
    twin = job_spec(job_config_of(job(WORKLOADS)), 1)
    assert (twin.workload, twin.default.workload) == (spec.workload, spec.default.workload)
    assert twin.task(1).workload == spec.task(1).workload


def test_a_v0_job_shows_its_workloads_in_v1alpha() -> None:
    config = job_pb2.JobConfig(instanceCount=2)
    config.workload.framework = workload_pb2.FRAMEWORK_RAY
    config.defaultConfig.workload.peer.SetInParent()
    config.instanceConfig[1].workload.rendezvous_port = "meet"
    shown = v1alpha_spec(config_payload(config))
    assert shown.workload == config.workload
    assert shown.default_spec.workload == config.defaultConfig.workload
    assert shown.instance_spec[1].workload == config.instanceConfig[1].workload


@pytest.mark.parametrize(("given", "interval"), [(0, 300), (7, 7)])
def test_an_elastic_gang_has_all_instances_as_members(given: int, interval: int) -> None:
    config = job_pb2.JobConfig(instanceCount=4)
    config.workload.elastic.growth_interval_seconds = given
    spec = job_spec(config, version=1)
    assert spec.workload == JobWorkload(growth_interval=interval)
    assert (spec.gang_size, spec.bound_members, spec.rendezvous_size) == (1, 4, 4)
    assert [spec.is_extra(instance) for instance in range(4)] == [False, True, True, True]


def test_a_job_without_workload_has_the_shared_empty_one() -> None:
    spec = spec_from_v1alpha(job(), version=1)
    assert spec.workload is NO_JOB_WORKLOAD
    assert spec.default.workload is NO_TASK_WORKLOAD


@pytest.mark.parametrize("field", ["framework", "gang_policy"])
def test_a_number_that_is_not_known_is_refused(field: str) -> None:
    config = job_pb2.JobConfig()
    setattr(config.workload, field, 77)
    with pytest.raises(InvalidArgument, match=rf"^workload\.{field}: 77 is not one of .*\(0\)"):
        job_workload(config)

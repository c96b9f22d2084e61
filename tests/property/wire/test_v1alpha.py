"""Specs of both APIs: what one says is what the other says, for whatever is in them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.errors import InvalidArgument
from peloton.model.payload import Payload
from peloton.wire.job import job_spec
from peloton.wire.overrides import task_config as v0_task
from peloton.wire.payload import (
    job_config,
    spec_from_payload,
    spec_from_v1alpha,
    summary_and_texts,
    v1alpha_spec,
)
from peloton.wire.v1alpha.duplicate_fields import filled_job
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from peloton.wire.v1alpha.merge import pod_spec
from peloton.wire.v1alpha.task_config import task_config
from storage.codec import decode_payload, encode_payload
from tests.property.jobmgr_validation.messages import mutate
from tests.unit.jobmgr_services.configs import SERVICE as V0_SERVICE
from tests.unit.jobmgr_services.configs import job as v0_job
from tests.unit.wire.specs import job

OVERRIDES = st.sampled_from(
    [
        "",
        "instance_spec { key: 1 value {} }",
        "instance_spec { key: 1 value { containers { entrypoint { value: 'other' } image: 'i' } } }",
        "instance_spec { key: 1 value { containers { command { value: 'o' } ports { name: 'p' } } } }",
        "instance_spec { key: 1 value { mesos_spec { shell: false } } }",
        "instance_spec { key: 1 value { mesos_spec { shell: true executor_spec { type: 2 data: 'd' } } } }",
    ]
)
FEW = settings(max_examples=200, deadline=None)


@st.composite
def specs(draw: st.DrawFn) -> stateless_pb2.JobSpec:
    """A valid spec with a few fields, anywhere in the tree, set to something."""
    spec = job(draw(OVERRIDES))
    if draw(st.booleans()):
        mutate(draw, spec)
    for pod in (spec.default_spec, *spec.instance_spec.values()):
        mutate(draw, pod, 3)
    return spec


@st.composite
def v0_services(draw: st.DrawFn) -> job_pb2.JobConfig:
    """A config of a v0 service with a few fields, anywhere in the tree, set to something."""
    config = v0_job(draw(st.sampled_from(["", "instanceConfig { key: 1 value {} }"])), V0_SERVICE)
    for each in (config, config.defaultConfig, *config.instanceConfig.values()):
        mutate(draw, each, 2)
    config.type = job_pb2.SERVICE
    for task in (config.defaultConfig, *config.instanceConfig.values()):
        task.preemptionPolicy.type = task_pb2.PreemptionPolicy.TYPE_INVALID
        task.ClearField("foreignPod")  # jobs of pods are batch jobs, which Peloton alone makes
    return config


def _taken(spec: stateless_pb2.JobSpec) -> job_pb2.JobConfig:
    """Pass over specs that are refused."""
    assume(spec.IsInitialized())
    try:
        return job_config_of(spec)
    except InvalidArgument as refusal:
        assert refusal.field and refusal.expected and "\n" not in str(refusal)
        assume(False)
        raise


@FEW
@given(specs())
def test_each_instance_runs_its_merged_spec(spec: stateless_pb2.JobSpec) -> None:
    config = _taken(spec)
    for instance in (0, *spec.instance_spec):
        assert v0_task(config, instance) == task_config(pod_spec(spec, instance), "pod")


@FEW
@given(specs())
def test_a_spec_is_stored_and_returned_as_given(spec: stateless_pb2.JobSpec) -> None:
    _taken(spec)
    try:
        held = spec_from_v1alpha(spec, 3)
    except InvalidArgument:
        return
    stored = decode_payload(encode_payload(held.payload))
    assert v1alpha_spec(stored).SerializeToString(deterministic=True) == spec.SerializeToString(
        deterministic=True
    )
    assert spec_from_payload(stored, 3) == held
    short, _ = summary_and_texts(stored)
    assert spec_from_payload(short, 3).default == held.default


@FEW
@given(specs())
def test_filling_twins_changes_nothing_that_runs(spec: stateless_pb2.JobSpec) -> None:
    config = _taken(spec)
    filled = filled_job(spec)
    assert filled_job(filled) == filled
    again = job_config_of(filled)
    for instance in (0, *spec.instance_spec):
        assert v0_task(again, instance) == v0_task(config, instance)
    for pod in (filled.default_spec, *filled.instance_spec.values()):
        for container in pod.containers:
            assert container.HasField("command") == container.HasField("entrypoint")


def _without_constraint(config: task_pb2.TaskConfig) -> task_pb2.TaskConfig:
    """Of a constraint the parts that its type does not name are dropped: the model compares the rest."""
    result = task_pb2.TaskConfig()
    result.CopyFrom(config)
    result.ClearField("constraint")
    return result


@FEW
@given(v0_services())
def test_a_v0_service_and_its_spec_are_the_same(config: job_pb2.JobConfig) -> None:
    assume(config.IsInitialized())
    try:
        held = job_spec(config, 1)
    except (InvalidArgument, ValueError):
        assume(False)
        return
    spec = job_spec_of(config)
    again = _taken(spec)
    for instance in (0, *config.instanceConfig):
        assert _without_constraint(v0_task(again, instance)) == _without_constraint(v0_task(config, instance))
    back = spec_from_v1alpha(spec, 1)
    assert (back.sla.priority, back.labels) == (held.sla.priority, held.labels)
    for instance in (0, *config.instanceConfig):
        assert replace(back.task(instance), fingerprint=b"") == replace(held.task(instance), fingerprint=b"")
    assert job_config(Payload(back.payload.api, back.payload.data)) == again

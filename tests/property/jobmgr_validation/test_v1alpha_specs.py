"""Whatever a client sends as a v1alpha spec: it can be stored and run, or is refused with a path."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.errors import InvalidArgument
from peloton.wire.payload import spec_from_payload, spec_from_v1alpha
from peloton.wire.v1alpha.duplicate_fields import filled_job
from peloton.wire.v1alpha.patch import patched
from peloton.wire.validation.v1alpha import check_spec
from tests.property.jobmgr_validation.messages import mutate
from tests.unit.wire.specs import job


@st.composite
def mutated(draw: st.DrawFn) -> stateless_pb2.JobSpec:
    """A valid spec with a few fields, anywhere in the tree, set to something."""
    spec = job(draw(st.sampled_from(["", "instance_spec { key: 1 value {} }"])))
    mutate(draw, spec)
    return spec


def _taken_or_refused(spec: stateless_pb2.JobSpec) -> None:
    try:
        config = check_spec(spec)
        held = spec_from_v1alpha(spec, 1)
    except InvalidArgument as refusal:
        assert refusal.field and refusal.expected and "\n" not in str(refusal)
        assert "Config" not in refusal.field and "healthCheck" not in refusal.field
        return
    assert spec_from_payload(held.payload, 1) == held
    assert held.instance_count == config.instanceCount
    check_spec(filled_job(spec))
    assert patched(spec, stateless_pb2.JobSpec()) == spec


@settings(max_examples=200, deadline=None)
@given(mutated())
def test_messages(spec: stateless_pb2.JobSpec) -> None:
    _taken_or_refused(spec)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_bytes_changed(data: st.DataObject) -> None:
    raw = bytearray(job("instance_spec { key: 1 value { controller: true } }").SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        spec = stateless_pb2.JobSpec.FromString(bytes(raw))
    except DecodeError:
        return
    _taken_or_refused(spec)

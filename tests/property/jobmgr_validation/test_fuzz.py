"""Whatever bytes a client sends as a job config: it can be stored, or is refused with InvalidArgument."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.wire.job import job_spec
from peloton.wire.payload import spec_from_payload
from peloton.wire.validation.job import validated
from peloton.wire.validation.update import validated_update
from tests.property.jobmgr_validation.messages import mutate
from tests.unit.jobmgr_services.configs import job


@st.composite
def mutated(draw: st.DrawFn) -> job_pb2.JobConfig:
    """A valid config with a few fields, anywhere in the tree, set to something."""
    config = job(
        draw(st.sampled_from(["", "type: SERVICE", "type: DAEMON", "instanceConfig { key: 1 value {} }"]))
    )
    mutate(draw, config)
    return config


def _taken_or_refused(config: job_pb2.JobConfig) -> None:
    try:
        stored = validated(config)
        spec = job_spec(stored, 1)
    except InvalidArgument as refusal:
        assert refusal.field and refusal.expected and "\n" not in str(refusal)
        return
    assert spec_from_payload(spec.payload, 1) == spec
    assert spec.instance_count <= 100_000
    assert bool(spec.instance_count) != (config.type == job_pb2.DAEMON)
    for amount in spec.default.resources.values():
        assert amount >= 0
    assert not any(spec.overrides[i].controller for i in spec.overrides if i)
    assert validated(stored) == stored
    assert validated_update(stored, stored) == stored


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_messages(config: job_pb2.JobConfig) -> None:
    _taken_or_refused(config)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_bytes(junk: bytes, after_a_config: bool) -> None:
    start = job().SerializeToString() if after_a_config else b""
    try:
        config = job_pb2.JobConfig.FromString(start + junk)
    except DecodeError:
        return
    _taken_or_refused(config)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bytes_changed(data: st.DataObject) -> None:
    raw = bytearray(
        job("instanceConfig { key: 1 value { ports { name: 'a' value: 4 } } }").SerializeToString()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        config = job_pb2.JobConfig.FromString(bytes(raw))
    except DecodeError:
        return
    _taken_or_refused(config)

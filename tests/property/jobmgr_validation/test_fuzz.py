"""Whatever bytes a client sends as a job config: it can be stored, or is refused with InvalidArgument."""

from __future__ import annotations

import math

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.validation import check_supported, validated, validated_update
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.wire.job import job_spec, job_spec_from_payload
from tests.unit.jobmgr_services.configs import job

INTERESTING = [0, 1, 2, 3, 99, 100_000, 100_001, 2**31, 2**32 - 1]
DOUBLES = st.one_of(
    st.sampled_from([0.0, 0.1, 1.0, -1.0, 1e308, math.nan, math.inf, -math.inf]), st.floats(0, 1000)
)
TEXTS = st.sampled_from(["", "a", "b", "root", "\0", "a=b", "é" * 40])
INTEGERS = {
    FieldDescriptor.TYPE_UINT32: st.sampled_from(INTERESTING),
    FieldDescriptor.TYPE_UINT64: st.sampled_from([*INTERESTING, 2**64 - 1]),
    FieldDescriptor.TYPE_INT32: st.sampled_from([-1, 0, 1, 2**31 - 1]),
    FieldDescriptor.TYPE_INT64: st.sampled_from([-1, 0, 1, 2**63 - 1]),
}


@st.composite
def mutated(draw: st.DrawFn) -> job_pb2.JobConfig:
    """A valid config with a few fields, anywhere in the tree, set to something."""
    config = job(draw(st.sampled_from(["", "type: SERVICE", "instanceConfig { key: 1 value {} }"])))
    for _ in range(draw(st.integers(1, 5))):
        _mutate(draw, config, depth=0)
    return config


def _mutate(draw: st.DrawFn, message: Message, depth: int) -> None:
    field = draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        _mutate_message(draw, message, field, depth)
    elif field.is_repeated:
        getattr(message, field.name).append(draw(_scalar(field)))
    else:
        setattr(message, field.name, draw(_scalar(field)))


def _mutate_message(draw: st.DrawFn, message: Message, field: FieldDescriptor, depth: int) -> None:
    held = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        child = held[draw(st.sampled_from([0, 1, 2, 3, 2**32 - 1]))]
    elif field.is_repeated:
        child = held.add()
    else:
        child = held
        child.SetInParent()
    if depth < 6 and child.DESCRIPTOR.fields:
        _mutate(draw, child, depth + 1)


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[object]:
    if field.type == FieldDescriptor.TYPE_ENUM:
        known = list(field.enum_type.values_by_number)
        return st.sampled_from(known if field.enum_type.is_closed else [*known, 77, -1])
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return DOUBLES
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_STRING:
        return TEXTS
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=4)
    return INTEGERS[field.type]


def _taken_or_refused(config: job_pb2.JobConfig) -> None:
    try:
        stored = validated(config)
        spec = job_spec(stored, 1)
    except InvalidArgument as refusal:
        assert refusal.field and refusal.expected and "\n" not in str(refusal)
        return
    assert job_spec_from_payload(spec.payload, 1) == spec
    assert 1 <= spec.instance_count <= 100_000
    for amount in spec.default.resources.values():
        assert amount >= 0
    assert not any(spec.overrides[i].controller for i in spec.overrides if i)
    assert validated(stored) == stored
    try:
        check_supported(stored)
    except InvalidArgument as refusal:
        assert "yet" in str(refusal)
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

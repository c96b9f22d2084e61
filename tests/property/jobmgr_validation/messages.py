"""Protobuf messages with a few fields, anywhere in the tree, set to something."""

from __future__ import annotations

import math
from typing import Protocol, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

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

T = TypeVar("T")


KEYS = st.sampled_from([0, 1, 2, 3, 2**32 - 1])
"""Of maps by instance."""


class Draw(Protocol):
    """Of a composite strategy, or of st.data()."""

    def __call__(self, strategy: st.SearchStrategy[T]) -> T: ...


def mutate(draw: Draw, message: Message, most: int = 5) -> None:
    """Change 1 … `most` fields of the message."""
    for _ in range(draw(st.integers(1, most))):
        _mutate(draw, message, depth=0)


def _mutate(draw: Draw, message: Message, depth: int) -> None:
    field = draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        _mutate_message(draw, message, field, depth)
    elif field.is_repeated:
        getattr(message, field.name).append(draw(_scalar(field)))
    else:
        setattr(message, field.name, draw(_scalar(field)))


def _mutate_message(draw: Draw, message: Message, field: FieldDescriptor, depth: int) -> None:
    held = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        name = draw(_scalar(key) if key.type == FieldDescriptor.TYPE_STRING else KEYS)
        if value.type != FieldDescriptor.TYPE_MESSAGE:
            held[name] = draw(_scalar(value))
            return
        child = held[name]
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

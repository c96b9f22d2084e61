"""Lay the fields of one message over those of another."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message


def lay_over(result: Message, override: Message, skipped: Collection[str] = ()) -> None:
    """Replace fields of `result` by those of `override`, a message of the same kind, but for `skipped` ones.

    A message or list that is set, a number or string that is not zero, replaces the whole field; a bool
    always does, also when false.
    """
    for field in _fields(override.DESCRIPTOR):
        name = field.name
        if name in skipped:
            continue
        if field.type == FieldDescriptor.TYPE_BOOL:
            setattr(result, name, getattr(override, name))
        elif field.is_repeated:
            if getattr(override, name):
                result.ClearField(name)
                getattr(result, name).MergeFrom(getattr(override, name))
        elif field.message_type is not None:
            if override.HasField(name):
                getattr(result, name).CopyFrom(getattr(override, name))
        elif getattr(override, name):
            setattr(result, name, getattr(override, name))


@cache
def _fields(kind: Descriptor) -> tuple[FieldDescriptor, ...]:
    return tuple(kind.fields)

"""Refusal of texts that are not UTF-8 in requests.

Protobuf checks the texts of proto3 messages when it parses them, not those of proto2 (Mesos' messages): it
returns such a text as bytes, which no other code expects.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from peloton.errors import InvalidArgument


class _Part(NamedTuple):
    """A field with messages that may have texts of proto2."""

    name: str
    kind: Descriptor
    proto2: bool
    repeated: bool
    map: bool


class _Plan(NamedTuple):
    """The fields of a message that may lead to a text of proto2."""

    texts: tuple[str, ...]
    lists: tuple[str, ...]
    """Repeated texts."""
    parts: tuple[_Part, ...]


def require_utf8(message: Any, raw: bytes) -> None:
    """Raise InvalidArgument where a text in a message, which was parsed from `raw`, is not UTF-8."""
    if raw.isascii() or not _leads_to_text(message.DESCRIPTOR):
        return
    if found := _find(message, message.DESCRIPTOR):
        raise InvalidArgument(*found, "UTF-8 text")


def _find(message: Any, descriptor: Descriptor) -> tuple[str, bytes] | None:
    """Return the path of the first text that is not UTF-8, and the text; None where there is none."""
    plan = _plan(descriptor)
    for name in plan.texts:
        text = getattr(message, name)
        if type(text) is bytes:
            return name, text
    for name in plan.lists:
        for index, text in enumerate(getattr(message, name)):
            if type(text) is bytes:
                return f"{name}[{index}]", text
    for part in plan.parts:
        if found := _find_in(message, part):
            return found
    return None


def _find_in(message: Any, part: _Part) -> tuple[str, bytes] | None:
    """Return the same for the messages of a field."""
    name = part.name
    if not part.repeated:
        return _named(name, _find_below(getattr(message, name), part)) if message.HasField(name) else None
    values = getattr(message, name)
    for place in values if part.map else range(len(values)):
        if found := _find_below(values[place], part):
            return _named(f"{name}[{place!r}]", found)
    return None


def _find_below(value: Any, part: _Part) -> tuple[str, bytes] | None:
    """Return the same for one message. To serialise one of proto2 takes less time than to look at it."""
    if part.proto2 and value.SerializePartialToString().isascii():
        return None
    return _find(value, part.kind)


def _named(name: str, found: tuple[str, bytes] | None) -> tuple[str, bytes] | None:
    return found and (f"{name}.{found[0]}", found[1])


@cache
def _plan(descriptor: Descriptor) -> _Plan:
    """Return what must be looked at in messages of a type."""
    plain = [field for field in descriptor.fields if field.type == FieldDescriptor.TYPE_STRING]
    texts = plain if _is_proto2(descriptor.file) else []
    return _Plan(
        tuple(field.name for field in texts if not field.is_repeated),
        tuple(field.name for field in texts if field.is_repeated),
        tuple(
            _part(field) for field in descriptor.fields if field.message_type is not None and _leads(field)
        ),
    )


def _part(field: FieldDescriptor) -> _Part:
    kind = field.message_type
    if _is_map(field):
        kind = kind.fields_by_name["value"].message_type
    return _Part(field.name, kind, _is_proto2(kind.file), field.is_repeated, _is_map(field))


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type.GetOptions().map_entry)


def _leads(field: FieldDescriptor) -> bool:
    """Return whether messages of a field may have texts of proto2. The maps of Mesos have none as keys."""
    if not _is_map(field):
        return _leads_to_text(field.message_type)
    value = field.message_type.fields_by_name["value"].message_type
    return value is not None and _leads_to_text(value)


@cache
def _leads_to_text(descriptor: Descriptor) -> bool:
    """Return whether a message of a type may have texts of proto2 at any depth."""
    seen, left = {descriptor.full_name}, [descriptor]
    while left:
        each = left.pop()
        if _is_proto2(each.file) and any(field.type == FieldDescriptor.TYPE_STRING for field in each.fields):
            return True
        for field in each.fields:
            kind = field.message_type
            if kind is not None and kind.full_name not in seen:
                seen.add(kind.full_name)
                left.append(kind)
    return False


@cache
def _is_proto2(file: FileDescriptor) -> bool:
    written: Any = FileDescriptorProto()
    copied: Any = file
    copied.CopyToProto(written)
    return str(written.syntax) in ("", "proto2")

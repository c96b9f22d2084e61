"""JSON Schemas of specs for editors, generated from the messages' descriptors.

A schema is stricter than the reader of specs in one way: it knows a key as the .proto files and as their JSON
form write it (`default_spec`, `defaultSpec`), and in no other form.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_UNSIGNED = {
    FieldDescriptor.CPPTYPE_INT32: 2**31 - 1,
    FieldDescriptor.CPPTYPE_INT64: 2**63 - 1,
    FieldDescriptor.CPPTYPE_UINT32: 2**32 - 1,
    FieldDescriptor.CPPTYPE_UINT64: 2**64 - 1,
}
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_TIMES = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?\d+(\.\d+)?s$"},
}


def schema(message: type[Message], title: str) -> dict[str, Any]:
    """Return the schema of a spec that is read into a message."""
    definitions: dict[str, Any] = {}
    descriptor: Any = message.DESCRIPTOR
    _define(descriptor, definitions)
    top = definitions[descriptor.full_name]
    return {"$schema": DIALECT, "title": title, **top, "$defs": dict(sorted(definitions.items()))}


def _define(message: Descriptor, definitions: dict[str, Any]) -> None:
    definitions[message.full_name] = {}  # a message may hold itself
    properties: dict[str, Any] = {}
    for field in message.fields:
        properties[field.name] = properties[field.json_name] = _field(field, definitions)
    definitions[message.full_name] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _field(field: FieldDescriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        value = _value(kind.fields_by_name["value"], definitions)
        return {"type": ["object", "null"], "additionalProperties": value}
    one = _value(field, definitions)
    return {"type": ["array", "null"], "items": one} if field.is_repeated else _or_null(one)


def _value(field: FieldDescriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    if field.message_type is not None:
        return _message(field.message_type, definitions)
    if field.enum_type is not None:
        return {"enum": [value.name for value in field.enum_type.values]}
    if field.cpp_type in _UNSIGNED:
        return {"type": "integer", "minimum": 0, "maximum": _UNSIGNED[field.cpp_type]}
    if field.cpp_type in _FLOATS:
        return {"type": "number", "minimum": 0}
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return {"type": "boolean"}
    # a text may look like a number or a truth value: the reader takes it as it is written
    return {"type": ["string", "number", "boolean"]}


def _message(message: Descriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    if message.full_name in _TIMES:
        return dict(_TIMES[message.full_name])
    if message.full_name not in definitions:
        _define(message, definitions)
    return {"$ref": f"#/$defs/{message.full_name}"}


def _or_null(one: dict[str, Any]) -> dict[str, Any]:
    """Allow a key without a value: its field is left out."""
    return {"anyOf": [one, {"type": "null"}]}

"""JSON schemas of protobuf's JSON form of messages and enums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

Schema = dict[str, Any]

_F = FieldDescriptor
_INTEGERS: Mapping[tuple[int, ...], Schema] = {
    (_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32): {
        "type": "integer",
        "format": "int32",
        "minimum": -(2**31),
        "maximum": 2**31 - 1,
    },
    (_F.TYPE_UINT32, _F.TYPE_FIXED32): {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    (_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64): {
        "type": "string",
        "format": "int64",
        "pattern": "^-?[0-9]+$",
    },
    (_F.TYPE_UINT64, _F.TYPE_FIXED64): {"type": "string", "format": "uint64", "pattern": "^[0-9]+$"},
}
_REAL: Schema = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_SCALARS: Mapping[int, Schema] = {
    _F.TYPE_BOOL: {"type": "boolean"},
    _F.TYPE_STRING: {"type": "string"},
    _F.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    _F.TYPE_DOUBLE: _REAL,
    _F.TYPE_FLOAT: _REAL,
    **{kind: schema for kinds, schema in _INTEGERS.items() for kind in kinds},
}
_KEYS: Mapping[int, str] = {
    _F.TYPE_BOOL: "^(true|false)$",
    **{kind: "^-?[0-9]+$" for kinds in _INTEGERS for kind in kinds},
}
"""Patterns of a map's keys, which are strings in JSON."""
_NULLABLE: Mapping[str, int] = {
    "google.protobuf.BoolValue": _F.TYPE_BOOL,
    "google.protobuf.StringValue": _F.TYPE_STRING,
    "google.protobuf.BytesValue": _F.TYPE_BYTES,
    "google.protobuf.DoubleValue": _F.TYPE_DOUBLE,
    "google.protobuf.FloatValue": _F.TYPE_FLOAT,
    "google.protobuf.Int32Value": _F.TYPE_INT32,
    "google.protobuf.UInt32Value": _F.TYPE_UINT32,
    "google.protobuf.Int64Value": _F.TYPE_INT64,
    "google.protobuf.UInt64Value": _F.TYPE_UINT64,
}
_WELL_KNOWN: Mapping[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.Empty": {"type": "object", "additionalProperties": False},
    "google.protobuf.Any": {
        "type": "object",
        "required": ["@type"],
        "properties": {"@type": {"type": "string"}},
    },
}


def reference(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


class Schemas:
    """The schemas of the messages that were asked for, and of all that these consist of."""

    def __init__(self) -> None:
        self._components: dict[str, Schema] = {}

    def components(self) -> dict[str, Schema]:
        """Return the schemas by the full names of messages and enums."""
        return dict(sorted(self._components.items()))

    def of_message(self, message: Descriptor) -> Schema:
        """Return a schema of a message's JSON form."""
        name = str(message.full_name)
        if name in _NULLABLE:
            return {"anyOf": [_SCALARS[_NULLABLE[name]], {"type": "null"}]}
        if name not in self._components:
            self._components[name] = {}  # a message may contain itself
            self._components[name] = _WELL_KNOWN[name] if name in _WELL_KNOWN else self._object(message)
        return reference(name)

    def _object(self, message: Descriptor) -> Schema:
        schema: Schema = {
            "type": "object",
            "properties": {field.json_name: self._of_field(field) for field in message.fields},
            "additionalProperties": False,
        }
        if required := [field.json_name for field in message.fields if field.is_required]:
            schema["required"] = required
        if exclusive := list(_exclusive(message)):
            schema["allOf"] = [{"not": {"required": list(pair)}} for pair in exclusive]
        return schema

    def _of_field(self, field: FieldDescriptor) -> Schema:
        if _is_map(field):
            return self._map(field.message_type)
        schema = self._of_value(field)
        if field.is_repeated:
            schema = {"type": "array", "items": schema}
        return {**schema, "deprecated": True} if field.GetOptions().deprecated else schema

    def _map(self, entry: Descriptor) -> Schema:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        schema: Schema = {"type": "object", "additionalProperties": self._of_value(value)}
        if key.type in _KEYS:
            schema["propertyNames"] = {"pattern": _KEYS[key.type]}
        return schema

    def _of_value(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            return self.of_message(field.message_type)
        if field.enum_type is not None:
            return self._of_enum(field.enum_type)
        return _SCALARS[field.type]

    def _of_enum(self, enum: EnumDescriptor) -> Schema:
        name = str(enum.full_name)
        self._components.setdefault(
            name, {"type": "string", "enum": [str(value.name) for value in enum.values]}
        )
        return reference(name)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _exclusive(message: Descriptor) -> Iterator[tuple[str, str]]:
    """Yield the pairs of fields of which one at most may be given."""
    for group in message.oneofs:
        yield from combinations((field.json_name for field in group.fields), 2)

"""Protobuf messages as plain data, and as YAML and JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton.present.times import rfc3339

_NANOSECOND_FIELDS = {
    **dict.fromkeys(("createdAt", "updatedAt"), "Time"),
    **dict.fromkeys(("created_at", "updated_at"), "_time"),
}
"""Fields of Revision and ChangeLog, each with the end of the name of its time as RFC 3339."""
_TEXT_MESSAGES = ("google.protobuf.Timestamp", "google.protobuf.Duration")


def plain(message: Message) -> Any:
    """Return the set fields by the names of the .proto files, in their order: enums by name, bytes as bytes.

    As YAML, `peloton.client.spec` reads it back to the same message.
    """
    if message.DESCRIPTOR.full_name in _TEXT_MESSAGES:
        return message.ToJsonString()  # type: ignore[attr-defined]
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def as_json(message: Message) -> dict[str, Any]:
    """Return the message in protobuf's own JSON mapping, by the names of the .proto files.

    Fields of zero are in it, so that a reader finds every key; 64-bit numbers are text, as in that mapping.
    A time that the message has in nanoseconds stands beside it as RFC 3339, such as `createdAtTime`.
    """
    from google.protobuf import json_format

    content: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    _add_times(content)
    return content


def _add_times(content: Any) -> None:
    """Add the times to the data of a message and of all messages in it."""
    if isinstance(content, list):
        for item in content:
            _add_times(item)
    if not isinstance(content, dict):
        return
    for name, value in list(content.items()):
        if name in _NANOSECOND_FIELDS and isinstance(value, str) and value.isdecimal():
            content[name + _NANOSECOND_FIELDS[name]] = rfc3339(int(value))
        else:
            _add_times(value)


def yaml_text(value: Any) -> str:
    """Render a message, or plain lists and mappings, as YAML that the spec reader takes back."""
    import yaml

    content = plain(value) if isinstance(value, Message) else value
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(content, Dumper=dumper, sort_keys=False, allow_unicode=True, default_flow_style=False)
    return str(text).rstrip("\n")


def _field(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        one = _converter(field.message_type.fields_by_name["value"])
        return {key: one(value[key]) for key in sorted(value)}
    one = _converter(field)
    return [one(item) for item in value] if field.is_repeated else one(value)


def _converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return plain
    if field.enum_type is not None:
        known = field.enum_type.values_by_number
        return lambda number: known[number].name if number in known else number
    return lambda value: value

"""Required fields that a message lacks. Messages of Mesos have some.

protobuf's own `FindInitializationErrors` ends the process (upb, 6.33) where a message that lacks one has a
map of numbers or texts, too: anybody could end a daemon with such a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message


def missing_fields(message: Message) -> list[str]:
    """Return the paths of required fields that are not set, as in `defaultConfig.command.uris[0].value`."""
    return [] if message.IsInitialized() else list(_missing(message, ""))


def size_of(message: Message) -> int:
    """Return the size in bytes, as `ByteSize`, which raises where a required field is missing."""
    return len(message.SerializePartialToString())


def _missing(message: Any, path: str) -> Iterator[str]:
    for field in message.DESCRIPTOR.fields:
        if field.is_required and not message.HasField(field.name):
            yield path + field.name
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key in value:
                    yield from _missing(value[key], f"{path}{field.name}[{key!r}].")
        elif field.is_repeated:
            for index, part in enumerate(value):
                yield from _missing(part, f"{path}{field.name}[{index}].")
        else:
            yield from _missing(value, f"{path}{field.name}.")

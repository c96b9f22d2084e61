"""In which fields two configs of an instance mean something else: why an update restarts the instance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from peloton.api.v0.task import task_pb2
from peloton.model.amounts import byte_size, plain
from peloton.model.payload import SecretRef
from peloton.model.workflow import FieldChange
from peloton.wire.meaning import canonical

MAX_CHANGES = 50
"""Changes that are told of one instance."""
MAX_TEXT_CHARACTERS = 200
"""Characters of a value that are told."""
Secrets = tuple[SecretRef, ...]
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT = {"command.environment.variables": "environment"}
"""Paths that have a shorter name."""
_FLOATS = frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT})


def changes(
    old: task_pb2.TaskConfig,
    new: task_pb2.TaskConfig,
    old_secrets: Secrets = (),
    new_secrets: Secrets = (),
) -> tuple[FieldChange, ...]:
    """Return where two merged configs differ in what they mean; the first MAX_CHANGES."""
    before, after = canonical(old), canonical(new)
    found = [*_fields(before, after, ""), *_secrets(old_secrets, new_secrets)]
    if not found and before != after:
        found.append(FieldChange("fields that this server does not know", "", "", "others"))
    return tuple(found[:MAX_CHANGES])


def _fields(before: Any, after: Any, path: str) -> Iterator[FieldChange]:
    for field in before.DESCRIPTOR.fields:
        name = f"{path}{_WORDS.sub('_', field.name).lower()}"
        was, now = getattr(before, field.name), getattr(after, field.name)
        if field.is_repeated:
            yield from _elements(field, was, now, _SHORT.get(name, name))
            continue
        held, holds = _present(before, field), _present(after, field)
        if field.message_type is not None and held and holds:
            yield from _fields(was, now, f"{name}.")
        elif was != now or held != holds:
            yield FieldChange(name, "", _told(field, was, held), _told(field, now, holds))


def _present(message: Any, field: FieldDescriptor) -> bool:
    return not field.has_presence or message.HasField(field.name)


def _elements(field: FieldDescriptor, was: Any, now: Any, path: str) -> Iterator[FieldChange]:
    """Yield the changes of a list: by the keys of its elements, where they have some."""
    known = _KEYED.get(field.full_name)
    if known is None:
        if was != now:
            yield FieldChange(path, "", _all(field, was), _all(field, now))
        return
    key, told = known
    held, holds = _by_key(was, key, told), _by_key(now, key, told)
    for name in sorted({*held, *holds}):
        if held.get(name) != holds.get(name):
            yield FieldChange(path, name, _cut(held.get(name, "")), _cut(holds.get(name, "")))


def _by_key(elements: Iterable[Any], key: str, told: Callable[[Any], str]) -> dict[str, str]:
    """Return the elements as text by key; those of one key as one text."""
    found: dict[str, str] = {}
    for each in elements:
        name, text = getattr(each, key), told(each)
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _compact(message: Any) -> str:
    return " ".join(str(message).split())


def _port(port: task_pb2.PortConfig) -> str:
    text = str(port.value) if port.value else "a dynamic port"
    return f"{text} as {port.envName}" if port.envName else text


def _value(element: Any) -> str:
    """Return the value of a label or a variable; one that is empty is seen as such."""
    return element.value or '""'


def _variable(variable: Any) -> str:
    return _compact(variable) if variable.HasField("type") else _value(variable)


_KEYED: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "peloton.api.v0.task.TaskConfig.labels": ("key", _value),
    "peloton.api.v0.task.TaskConfig.ports": ("name", _port),
    "mesos.v1.ContainerInfo.volumes": ("container_path", _compact),
    "mesos.v1.Environment.variables": ("name", _variable),
    "mesos.v1.Labels.labels": ("key", _value),
}
"""Lists whose elements have a key: its field, and what is told of an element."""


def _secrets(old: Secrets, new: Secrets) -> Iterator[FieldChange]:
    """Yield the changes of secret files, without their contents."""
    held, holds = ({secret.path: secret.key for secret in some} for some in (old, new))
    for path in sorted({*held, *holds}):
        if held.get(path) != holds.get(path):
            before = "a content" if path in held else ""
            yield FieldChange("secrets", path, before, "another content" if path in holds else "")


def _all(field: FieldDescriptor, values: Iterable[Any]) -> str:
    return _cut(", ".join(_text(field, value) for value in values))


def _told(field: FieldDescriptor, value: Any, present: bool) -> str:
    return _cut(_text(field, value)) if present else ""


def _text(field: FieldDescriptor, value: Any) -> str:
    if field.message_type is not None:
        return _compact(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return byte_size(len(value)) if value else ""
    if field.type == FieldDescriptor.TYPE_BOOL:
        return str(value).lower()
    if field.enum_type is not None and value in field.enum_type.values_by_number:
        return str(field.enum_type.values_by_number[value].name)
    return plain(value) if field.type in _FLOATS else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 3]}..."

"""Mesos' own JSON mapping of protobuf messages, which is not the one of proto3.

Field names are those of the .proto, enums go by name, 64-bit integers are numbers, bytes are standard
base64, fields appear in the order of their declaration, absent ones not at all unless the .proto gives
them a default and does not deprecate them. Reading is lenient where Mesos is: unknown fields and unknown
values of optional enums are ignored, numbers and booleans may come as strings. Source of the rules and of
the error texts: recordings ``01-subscribe`` and ``06-invalid``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from peloton import required_fields

M = TypeVar("M", bound=Message)
Json = dict[str, Any]

_INTEGERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)
_FLOATS = frozenset({FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT})


class JsonError(ValueError):
    """The text is no JSON, or not of the message; ``str()`` is the sentence that Mesos answers."""


# --- writing ---------------------------------------------------------------------------------------

_Writer = Callable[[Any], Any]
_plans: dict[str, list[tuple[str, bool, bool, bool, _Writer]]] = {}


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _same(value: Any) -> Any:
    return value


def _writer(field: FieldDescriptor) -> _Writer:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return to_dict
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return names.__getitem__
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _b64
    return _same


def _plan(descriptor: Any) -> list[tuple[str, bool, bool, bool, _Writer]]:
    plan = _plans.get(descriptor.full_name)
    if plan is None:
        plan = []
        for field in descriptor.fields:
            is_map = _is_map(field)
            value = field.message_type.fields_by_name["value"] if is_map else field
            has_default = field.has_default_value and not field.GetOptions().deprecated
            plan.append((field.name, field.is_repeated, is_map, has_default, _writer(value)))
        _plans[descriptor.full_name] = plan
    return plan


def to_dict(message: Message) -> Json:
    """Return ``message`` as the dictionary that Mesos would print, keys in order of declaration."""
    out: Json = {}
    for name, repeated, is_map, has_default, write in _plan(message.DESCRIPTOR):
        if repeated:
            value = getattr(message, name)
            if not value:
                continue
            out[name] = (
                {key: write(value[key]) for key in sorted(value)}
                if is_map
                else [write(item) for item in value]
            )
        elif has_default or message.HasField(name):
            out[name] = write(getattr(message, name))
    return out


def dumps(value: Json) -> bytes:
    """Serialise a dictionary without blanks, as Mesos does."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def encode(message: Message) -> bytes:
    """Return ``message`` as the JSON text that Mesos would send."""
    return dumps(to_dict(message))


# --- reading ---------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object" if isinstance(value, dict) else "null"


def _refuse(field: FieldDescriptor, value: Any) -> JsonError:
    return JsonError(f"Not expecting a JSON {_kind(value)} for field '{field.name}'")


def _from_text(field: FieldDescriptor, text: str, kind: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if value is None or _kind(value) != kind:
        raise JsonError(
            f"Failed to parse '{text}' as a JSON {kind} for field '{field.name}': "
            f"syntax error at line 1 near: {text}"
        )
    return value


def _read_bytes(field: FieldDescriptor, text: str) -> bytes:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
    bad = next((char for char in text if char not in alphabet), None)
    reason = f"Invalid character '{bad}'" if bad is not None else "Invalid length"
    if bad is None:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            pass  # reported below, with the other reason
    raise JsonError(f"Failed to base64 decode bytes field '{field.name}': {reason}")


def _read_enum(field: FieldDescriptor, value: Any) -> int | None:
    if not isinstance(value, str):
        raise _refuse(field, value)
    known = field.enum_type.values_by_name.get(value)
    if known is not None:
        return int(known.number)
    if field.is_required and field.full_name != _OPEN_ENUM:
        raise JsonError(f"Failed to find enum for '{value}'")
    return None


def _read_number(field: FieldDescriptor, value: Any) -> int | float:
    if isinstance(value, str):
        value = _from_text(field, value, "number")
    if _kind(value) != "number":
        raise _refuse(field, value)
    return int(value) if field.cpp_type in _INTEGERS else float(value)


def _read_scalar(field: FieldDescriptor, value: Any) -> Any:
    """Read a value that is no message; None means that the field stays unset."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return _read_enum(field, value)
    if field.cpp_type in _INTEGERS or field.cpp_type in _FLOATS:
        return _read_number(field, value)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        if isinstance(value, str):
            value = _from_text(field, value, "boolean")
        if not isinstance(value, bool):
            raise _refuse(field, value)
        return value
    if not isinstance(value, str):
        raise _refuse(field, value)
    return _read_bytes(field, value) if field.type == FieldDescriptor.TYPE_BYTES else value


def _fill_map(target: Any, field: FieldDescriptor, value: Any) -> None:
    if not isinstance(value, dict):
        raise _refuse(field, value)
    inner = field.message_type.fields_by_name["value"]
    for key, item in value.items():
        if inner.message_type is not None:
            _fill(target[key], item, inner)
        else:
            target[key] = _read_scalar(inner, item)


def _fill_repeated(message: Message, field: FieldDescriptor, value: Any) -> None:
    if not isinstance(value, list):
        raise _refuse(field, value)
    target = getattr(message, field.name)
    for item in value:
        if field.message_type is not None:
            _fill(target.add(), item, field)
        else:
            scalar = _read_scalar(field, item)
            if scalar is not None:
                target.append(scalar)


def _fill(message: Message, value: Any, via: FieldDescriptor | None = None) -> None:
    if not isinstance(value, dict):
        raise JsonError("Expecting a JSON object") if via is None else _refuse(via, value)
    message.SetInParent()
    fields = message.DESCRIPTOR.fields_by_name
    for name, item in value.items():
        field = fields.get(name)
        if field is None or item is None:
            continue
        if _is_map(field):
            _fill_map(getattr(message, name), field, item)
        elif field.is_repeated:
            _fill_repeated(message, field, item)
        elif field.message_type is not None:
            _fill(getattr(message, name), item, field)
        else:
            scalar = _read_scalar(field, item)
            if scalar is not None:
                setattr(message, name, scalar)


_OPEN_ENUM = "mesos.v1.TaskStatus.state"
_STATE_OF_STATUS = re.compile(r"(^|\.)status(es\[\d+\])?\.state$")


def _near(text: str, error: json.JSONDecodeError) -> str:
    """Return what picojson quotes of a broken text: the rest of the line where it stopped."""
    rest = text[error.pos :]
    return rest.split("\n", 1)[0].strip() if error.msg == "Extra data" else ""


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that is half of a character; without the other half, which would follow, it is no text."""


def _without_surrogates(value: Any) -> Any:
    """Return a document whose texts have a question mark for each half of a character."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return value


def loads(body: bytes) -> Any:
    """Parse JSON text.

    Raises JsonError with Mesos' words when it is none.
    """
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
        return _without_surrogates(value) if _SURROGATE.search(text) else value
    except json.JSONDecodeError as error:
        where = f"syntax error at line {error.lineno} near: {_near(text, error)}"
        raise JsonError(f"Failed to parse body into JSON: {where}") from error
    except (RecursionError, ValueError) as error:
        raise JsonError("Failed to parse body into JSON: syntax error at line 1 near: ") from error


def missing_fields(message: Message) -> list[str]:
    """Return the paths of required fields that are not set, except for the state of a status.

    A newer Mesos may report states that the stubs do not have; such a status has none.
    """
    return [path for path in required_fields.missing_fields(message) if not _STATE_OF_STATUS.search(path)]


def decode(body: bytes, kind: type[M], name: str = "Call") -> M:
    """Parse JSON text into a message of ``kind``.

    Raises JsonError with the sentence that Mesos puts into its 400.
    """
    value = loads(body)
    message = kind()
    try:
        _fill(message, value)
        missing = missing_fields(message)
        if missing:
            raise JsonError(f"Missing required fields: {', '.join(missing)}")
    except JsonError as error:
        raise JsonError(f"Failed to convert JSON into {name} protobuf: {error}") from error
    except (ValueError, TypeError, OverflowError) as error:
        raise JsonError(f"Failed to convert JSON into {name} protobuf: {error}") from error
    return message

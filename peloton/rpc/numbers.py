"""Refusal of NaN and infinities in requests: no amount, limit or time is one of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from peloton.errors import InvalidArgument

_SUSPECT = re.compile(rb"[\x80-\xff][\x7f\xff]")
"""The last two bytes of any such number on the wire. No text has them, so most requests are not searched."""
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


def require_finite(message: Any, raw: bytes) -> None:
    """Raise InvalidArgument where a number in a message, which was parsed from `raw`, is not finite."""
    if _SUSPECT.search(raw):
        _check(message, "")


def _check(message: Any, path: str) -> None:
    for field, value in message.ListFields():
        name = f"{path}{field.name}"
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            _check_entries(name, entry.fields_by_name["value"], value)
        elif field.cpp_type in _FLOATS:
            _check_numbers(name, value if field.is_repeated else (value,))
        elif entry is not None and field.is_repeated:
            for index, part in enumerate(value):
                _check(part, f"{name}[{index}].")
        elif entry is not None:
            _check(value, f"{name}.")


def _check_entries(name: str, value: FieldDescriptor, entries: Any) -> None:
    if value.cpp_type in _FLOATS:
        _check_numbers(name, entries.values())
    elif value.message_type is not None:
        for key in entries:
            _check(entries[key], f"{name}[{key!r}].")


def _check_numbers(name: str, numbers: Iterable[float]) -> None:
    for number in numbers:
        if not math.isfinite(number):
            raise InvalidArgument(name, number, "a finite number")

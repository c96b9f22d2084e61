"""Values as texts, equal in each process where the values are equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
from google.protobuf.message import Message

Name = Callable[[Any], tuple[Any, ...] | None]
"""Returns the name of an object of the core, None for other values."""


def text_of(value: Any, name: Name) -> str:
    """Return a value as a text; objects of the core by their names."""
    named = name(value)
    if named is not None:
        return f"<{' '.join(map(str, named))}>"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if is_dataclass(value):
        compared = (each.name for each in fields(value) if each.compare)
        parts = (f"{each}={text_of(getattr(value, each), name)}" for each in compared)
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, Message):
        return f"{type(value).__name__}({value.SerializePartialToString(deterministic=True)!r})"
    if isinstance(value, np.ndarray | np.generic):
        return text_of(value.tolist(), name)
    return _of_collection(value, name)


def _of_collection(value: Any, name: Name) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{text_of(key, name)}: {text_of(held, name)}" for key, held in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(text_of(each, name) for each in value))}}}"
    if isinstance(value, tuple | list):
        return f"({', '.join(text_of(each, name) for each in value)})"
    raise TypeError(f"{type(value).__name__} has no text of its own: {value!r}")

"""Matching of names as users write them to those of the wire interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor


def normalized(name: str) -> str:
    """Return a name without case and underscores: `instance_count`, `InstanceCount`: `instancecount`."""
    return name.replace("_", "").lower()


@cache
def field_names(message: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the fields of a message by normalized name."""
    return {normalized(field.name): field for field in message.fields}


@cache
def enum_numbers(enum: EnumDescriptor) -> Mapping[str, int]:
    """Return the numbers of an enum by normalized name, with and without the prefix that all names share."""
    names = {value.name: value.number for value in enum.values}
    cut = _shared_prefix(list(names))
    short = {normalized(name[cut:]): number for name, number in names.items()}
    return short | {normalized(name): number for name, number in names.items()}


def short_names(enum: EnumDescriptor) -> list[str]:
    """Return the names of an enum without the prefix that all of them share."""
    names = [value.name for value in enum.values]
    cut = _shared_prefix(names)
    return [name[cut:] for name in names]


def _shared_prefix(names: list[str]) -> int:
    """Return the length of the words (`STATE_` in `STATE_UP`, `STATE_DOWN`) that all names begin with."""
    first, last = min(names), max(names)
    shared = next((at for at, letter in enumerate(first) if last[at : at + 1] != letter), len(first))
    return first.rfind("_", 0, shared) + 1 if len(names) > 1 else 0


def suggestion(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the closest known name, or nothing where none is close."""
    by_name = {normalized(name): name for name in known}
    close = get_close_matches(normalized(given[:100]), by_name, n=1, cutoff=0.6)
    return f"; did you mean {by_name[close[0]]}?" if close else ""


def enum_suggestion(given: str, names: list[str]) -> str:
    """Return the suggestion for a name of an enum, by the words in which its names differ from each other.

    `LABEL_CONSTRAINT` means CONSTRAINT_TYPE_LABEL, and not CONSTRAINT_TYPE_OR, which has more letters of it.
    """
    words = {name: frozenset(name.upper().split("_")) for name in names}
    shared = frozenset.intersection(*words.values()) if len(names) > 1 else frozenset[str]()
    own = frozenset(given[:100].upper().split("_")) - shared
    same = [name for name in names if own and words[name] - shared == own]
    return f"; did you mean {same[0]}?" if same else suggestion(given, names)

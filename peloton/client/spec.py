"""Reader of YAML specs into protobuf messages of any type.

Keys are matched without case and underscores. Every refusal names file, line and the field's path as it is
written there, the value, and what would be right.

| field | YAML |
|---|---|
| number | number; not negative, and within the range of the field's type |
| number of seconds, MB or cores | the number, or text with a unit: `5m`, `2Gi`, `500m` |
| string | any plain or quoted scalar, taken as it is written |
| bool | `true` or `false` |
| enum | its name, without case and underscores, with or without the prefix its values share; or its number |
| bytes | `!!binary` for base64; else the UTF-8 bytes of the text |
| message, map | mapping |
| Timestamp, Duration | text: `2026-01-31T12:00:00Z`, `3.5s` |
| repeated | sequence |

A null leaves its field out.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from peloton.client.matching import enum_numbers, enum_suggestion, field_names, normalized, suggestion
from peloton.client.units import Unit, unit_of
from peloton.client.yamltree import MAX_DEPTH, MAX_NODES, SpecError, compose, entries, line_of, read_text
from peloton.required_fields import missing_fields

M = TypeVar("M", bound=Message)

MOST_ERRORS = 50
"""Errors that are listed for one file."""
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset(_TAG + name for name in ("str", "int", "float", "bool", "timestamp", "value", "merge"))
_INTEGERS: dict[int, tuple[int, int]] = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_EXPONENT = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?e[+-]?[0-9]+\Z")
_NOTHING = re.compile(r"(?:0|'') is not ")
"""How a rule begins about a value that is not given."""
_FLOATS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_TEXT_MESSAGES = {
    "google.protobuf.Timestamp": "a time such as 2026-01-31T12:00:00Z",
    "google.protobuf.Duration": "a duration such as 3.5s",
}


def read_spec(message_type: type[M], file: str) -> M:
    """Read a message from a YAML file (`-` is standard input). Raises SpecError."""
    return parse_spec(message_type, read_text(file), file)


def parse_spec(message_type: type[M], text: str, source: str = "<text>", *, negative: bool = False) -> M:
    """Read a message from YAML text; `source` names it in errors, `negative` allows negative numbers."""
    message = message_type()
    reader = _Reader(source, negative)
    reader.fill(message, compose(text, source), "")
    for path in missing_fields(message):
        raise SpecError("is missing", source=source, path=path)
    return message


class _Reader:
    """Walks the nodes of one file; counts them, as aliases can make few lines into very many values."""

    def __init__(self, source: str, negative: bool) -> None:
        self._source = source
        self._negative = negative
        self._left = MAX_NODES
        self._around: MappingNode | None = None
        """The mapping whose fields are being set."""

    def fill(self, message: Any, node: Node, path: str) -> None:
        """Set the fields of `message` from a mapping."""
        self._count(node, path)
        if message.DESCRIPTOR.full_name in _TEXT_MESSAGES:
            return self._fill_text(message, node, path)
        known = field_names(message.DESCRIPTOR)
        taken: dict[str, tuple[str, int]] = {}
        message.SetInParent()
        for key, value in self._pairs(node, path):
            self._around = node if isinstance(node, MappingNode) else None
            self._set_key(message, key, value, path, known.get(normalized(key.value)), taken)
        return None

    def _set_key(
        self,
        message: Any,
        key: ScalarNode,
        value: Node,
        path: str,
        field: FieldDescriptor | None,
        taken: dict[str, tuple[str, int]],
    ) -> None:
        inner = _join(path, key.value)
        if field is None:
            raise self._unknown(message.DESCRIPTOR, key, inner)
        self._check_single(field, key, inner, taken)
        if value.tag != _TAG + "null":
            self._set(message, field, value, inner)

    def _set(self, message: Any, field: FieldDescriptor, node: Node, path: str) -> None:
        if _is_map(field):
            self._set_map(getattr(message, field.name), field, node, path)
        elif field.is_repeated:
            self._set_list(getattr(message, field.name), field, node, path)
        elif field.message_type is not None:
            self.fill(getattr(message, field.name), node, path)
        else:
            setattr(message, field.name, self._scalar(field, node, path))

    def _set_list(self, target: Any, field: FieldDescriptor, node: Node, path: str) -> None:
        self._count(node, path)
        if not isinstance(node, SequenceNode):
            raise self._wrong(node, path, "a list: each entry on a line of its own, with `- ` before it")
        for index, item in enumerate(node.value):
            inner = f"{path}[{index}]"
            if field.message_type is not None:
                self.fill(target.add(), item, inner)
            else:
                target.append(self._scalar(field, item, inner))

    def _set_map(self, target: Any, field: FieldDescriptor, node: Node, path: str) -> None:
        self._count(node, path)
        key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for key, value in self._pairs(node, path):
            inner = _join(path, key.value)
            at = self._scalar(key_field, key, inner)
            if at in target:
                raise SpecError("is given twice", source=self._source, line=line_of(key), path=inner)
            if value_field.message_type is not None:
                self.fill(target[at], value, inner)
            else:
                target[at] = self._scalar(value_field, value, inner)

    def _fill_text(self, message: Any, node: Node, path: str) -> None:
        text = node.value if isinstance(node, ScalarNode) else ""
        try:
            message.FromJsonString(text)
        except (ValueError, AttributeError) as error:
            raise self._wrong(node, path, _TEXT_MESSAGES[message.DESCRIPTOR.full_name]) from error

    def _scalar(self, field: FieldDescriptor, node: Node, path: str) -> Any:
        self._count(node, path)
        kind = field.cpp_type
        if kind in _INTEGERS:
            return self._integer(_INTEGERS[kind], node, path, unit_of(field, self._around))
        if kind in _FLOATS:
            return self._float(node, path, unit_of(field, self._around))
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return self._bool(node, path)
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return self._enum(field, node, path)
        return self._bytes(node, path) if field.type == FieldDescriptor.TYPE_BYTES else self._text(node, path)

    def _integer(self, bounds: tuple[int, int], node: Node, path: str, unit: Unit | None) -> int:
        low, high = (bounds[0] if self._negative else 0), bounds[1]
        number = _quantity(node, unit)
        if number is None or number != number // 1:
            what = f"a whole number of {unit.one}, such as {unit.examples}" if unit else "a whole number"
            raise self._wrong(node, path, what)
        if number < low:
            raise self._wrong(node, path, f"a whole number of {low} or more")
        if number > high:
            raise self._wrong(node, path, f"a whole number of {high} or less")
        return int(number)

    def _float(self, node: Node, path: str, unit: Unit | None) -> float:
        number = _quantity(node, unit)
        if number is None or abs(number) == float("inf") or number != number:
            what = f"an amount in {unit.one}, such as {unit.examples}" if unit else "a number, such as 0.5"
            raise self._wrong(node, path, what)
        if number < 0 and not self._negative:
            raise self._wrong(node, path, "a number of 0 or more")
        return float(number)

    def _bool(self, node: Node, path: str) -> bool:
        if node.tag != _TAG + "bool":
            raise self._wrong(node, path, "true or false")
        return str(node.value).lower() in ("true", "yes", "on")

    def _text(self, node: Node, path: str) -> str:
        if not isinstance(node, ScalarNode) or node.tag not in _TEXT_TAGS:
            raise self._wrong(node, path, "text")
        return str(node.value)

    def _bytes(self, node: Node, path: str) -> bytes:
        if node.tag != _TAG + "binary":
            return self._text(node, path).encode()
        try:
            return base64.b64decode("".join(str(node.value).split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._wrong(node, path, "base64") from error

    def _enum(self, field: FieldDescriptor, node: Node, path: str) -> int:
        numbers = enum_numbers(field.enum_type)
        if isinstance(node, ScalarNode):
            number = numbers.get(normalized(node.value), _number(node))
            if number is not None and number in field.enum_type.values_by_number:
                return int(number)
        names = [value.name for value in field.enum_type.values]
        hint = enum_suggestion(str(node.value), names) if isinstance(node, ScalarNode) else ""
        raise self._wrong(node, path, f"one of {', '.join(names)}", hint)

    def _pairs(self, node: Node, path: str) -> Iterator[tuple[ScalarNode, Node]]:
        if not isinstance(node, MappingNode) or node.tag != _TAG + "map":
            raise self._wrong(node, path, "a mapping: `key: value` lines")
        for key, value in entries(node):
            if not isinstance(key, ScalarNode):
                raise self._wrong(key, path, "a key")
            yield key, value

    def _check_single(
        self, field: FieldDescriptor, key: ScalarNode, path: str, taken: dict[str, tuple[str, int]]
    ) -> None:
        group = field.containing_oneof
        for name in (field.name, group.full_name if group is not None else field.name):
            if name in taken:
                before, line = taken[name]
                also = "is given twice" if name == field.name else "cannot stand beside another choice"
                raise SpecError(
                    f"{also}: {before} is on line {line}", source=self._source, line=line_of(key), path=path
                )
        taken[field.name] = (key.value, line_of(key))
        if group is not None:
            taken[group.full_name] = taken[field.name]

    def _unknown(self, message: Descriptor, key: ScalarNode, path: str) -> SpecError:
        names = [field.name for field in message.fields]
        hint = suggestion(key.value, names) or f"; known here: {', '.join(names)}"
        return SpecError(f"unknown key{hint}", source=self._source, line=line_of(key), path=path)

    def _wrong(self, node: Node, path: str, expected: str, hint: str = "") -> SpecError:
        text = f"{_shown(node)} is not {expected}{hint}"
        return SpecError(text, source=self._source, line=line_of(node), path=path)

    def _count(self, node: Node, path: str) -> None:
        self._left -= 1
        bound = f"more than {MAX_NODES} values" if self._left < 0 else ""
        if path.count(".") + path.count("[") > MAX_DEPTH:
            bound, path = (
                f"nested deeper than {MAX_DEPTH} levels: does an alias hold itself?",
                path.split(".")[0],
            )
        if bound:
            raise SpecError(bound, source=self._source, line=line_of(node), path=path)


class _CollectingReader(_Reader):
    """Goes on behind what is wrong, and knows the line of each path."""

    def __init__(self, source: str) -> None:
        super().__init__(source, negative=False)
        self.errors: list[SpecError] = []
        self.lines: dict[str, int] = {}

    def _set_key(self, *args: Any) -> None:
        try:
            super()._set_key(*args)
        except SpecError as error:
            self.errors.append(error)
            if len(self.errors) == MOST_ERRORS:
                raise

    def _count(self, node: Node, path: str) -> None:
        super()._count(node, path)
        self.lines.setdefault(_plain_path(path), line_of(node))


@dataclass(frozen=True, slots=True)
class Parsed(Generic[M]):
    """A spec with all that is wrong with its form."""

    message: M
    errors: Sequence[SpecError]
    lines: Mapping[str, int]
    source: str

    def refused(self, path: str, what: str) -> SpecError:
        """Return what a rule says, such as `0 is not X`, with its line; what the file has not is missing."""
        absent = _NOTHING.match(what)
        if absent is not None and not self.has(path):
            what = f"is missing: give {what[absent.end() :]}"
        return self.located(path, what)

    def has(self, path: str) -> bool:
        """Return whether the file has a field."""
        return _plain_path(path) in self.lines

    def located(self, path: str, text: str) -> SpecError:
        """Return what is said about a field, with its line, or that of the nearest field around it."""
        parts = _plain_path(path).split(".")
        starts = (".".join(parts[:count]) for count in range(len(parts), -1, -1))
        line = next((self.lines[start] for start in starts if start in self.lines), None)
        return SpecError(text, source=self.source, line=line, path=path)


def parse_all(message_type: type[M], root: Node, source: str) -> Parsed[M]:
    """Read a message from a tree, collecting what is wrong, MOST_ERRORS at most. Raises no SpecError."""
    message, reader = message_type(), _CollectingReader(source)
    try:
        reader.fill(message, root, "")
    except SpecError as error:
        reader.errors.extend([] if error in reader.errors else [error])
    return Parsed(message, reader.errors, reader.lines, source)


def _plain_path(path: str) -> str:
    """Return a path in one form, however it is written: `instanceConfig[3].x` and `instance_config.3.x`."""
    return normalized(path.replace("[", ".").replace("]", ""))


def _number(node: Node) -> int | float | None:
    """Return the value of a number's node. YAML 1.1's base 60 (`1:30`) is refused: nobody means it."""
    if not isinstance(node, ScalarNode):
        return None
    text = node.value.replace("_", "").lower()
    if node.tag == _TAG + "str" and not node.style and _EXPONENT.match(text):
        return float(text)  # YAML 1.1 takes 1e3 for text
    if node.tag not in (_TAG + "int", _TAG + "float"):
        return None
    if text.lstrip("+-") in (".inf", ".nan"):
        return float("nan")
    try:
        return int(text, 0) if node.tag == _TAG + "int" else float(text)
    except ValueError:
        return None


def _quantity(node: Node, unit: Unit | None) -> int | float | None:
    """Return the value of a number's node, or of text with a unit in the one that the field is counted in."""
    number = _number(node)
    if number is not None or unit is None or not isinstance(node, ScalarNode) or node.tag != _TAG + "str":
        return number
    try:
        return unit.parse(node.value)
    except ValueError:
        return None


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _join(path: str, key: str) -> str:
    shown = key if len(key) <= 60 else key[:59] + "…"
    return f"{path}.{shown}" if path else shown


def _shown(node: Node, longest: int = 60) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    if node.tag == _TAG + "null":
        return "nothing"
    if node.tag not in _TEXT_TAGS:
        return f"a value of tag {node.tag.removeprefix(_TAG)[:longest]}"
    text = node.value if node.tag != _TAG + "str" else repr(node.value)
    return text if len(text) <= longest else text[: longest - 1] + "…"

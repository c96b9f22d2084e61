"""Reading of manifests: each field is read by its name, and what nobody reads is refused with its path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from peloton.web.kube.core.refusals import INVALID, NOT_SUPPORTED, REQUIRED, Cause

LARGEST_INTEGER = 2**31 - 1
MOST_CAUSES = 50
LONGEST_TEXT_CHARACTERS = 500
"""Characters of a path or a message: both may hold what a client gave."""


@dataclass(slots=True)
class Problems:
    """What is wrong with a manifest, and what is taken but not as somebody may expect."""

    causes: list[Cause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, path: str, message: str, reason: str = NOT_SUPPORTED) -> None:
        """Note a field that cannot be kept. After so many, others are left out."""
        if len(self.causes) < MOST_CAUSES:
            self.causes.append(Cause(_clipped(path), _clipped(message), reason))

    def warn(self, path: str, message: str) -> None:
        """Note a field that is kept in another way than with Kubernetes."""
        if len(self.warnings) < MOST_CAUSES:
            self.warnings.append(f"{_clipped(path)}: {_clipped(message)}")


class Node:
    """An object of a manifest."""

    def __init__(self, value: Any, path: str, problems: Problems) -> None:
        self.path = path
        self.problems = problems
        self._read: set[str] = set()
        self._fields: Mapping[str, Any] = {}
        if isinstance(value, Mapping):
            self._fields = value
        elif value is not None:
            problems.refuse(path, f"{_kind(value)} is not an object", INVALID)

    def at(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{key}" if self.path else key

    def __bool__(self) -> bool:
        return bool(self._fields)

    def given(self, key: str) -> bool:
        """Return whether a field has a value; null is none."""
        return self._fields.get(key) is not None

    def value(self, key: str) -> Any:
        """Return a field as it is."""
        self._read.add(key)
        return self._fields.get(key)

    def text(self, key: str, default: str = "") -> str:
        """Return a text."""
        found = self.value(key)
        if found is None or isinstance(found, str):
            return default if found is None else found
        self.problems.refuse(self.at(key), f"{_kind(found)} is not a string", INVALID)
        return default

    def integer(self, key: str, default: int = 0, least: int = 0, most: int = LARGEST_INTEGER) -> int:
        """Return an integer within bounds."""
        found = self.value(key)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int):
            self.problems.refuse(self.at(key), f"{_kind(found)} is not an integer", INVALID)
        elif not least <= found <= most:
            self.problems.refuse(self.at(key), f"{found} is not between {least} and {most}", INVALID)
        else:
            return found
        return default

    def flag(self, key: str) -> bool:
        """Return a boolean, false where it is not given."""
        found = self.value(key)
        if found is not None and not isinstance(found, bool):
            self.problems.refuse(self.at(key), f"{_kind(found)} is not a boolean", INVALID)
        return found is True

    def node(self, key: str) -> Node:
        """Return an object, without fields where it is not given."""
        return Node(self.value(key), self.at(key), self.problems)

    def nodes(self, key: str) -> list[Node]:
        """Return a list of objects."""
        return [Node(each, f"{self.at(key)}[{i}]", self.problems) for i, each in enumerate(self._list(key))]

    def texts(self, key: str) -> list[str]:
        """Return a list of texts."""
        found = []
        for i, each in enumerate(self._list(key)):
            if isinstance(each, str):
                found.append(each)
            else:
                self.problems.refuse(f"{self.at(key)}[{i}]", f"{_kind(each)} is not a string", INVALID)
        return found

    def mapping(self, key: str) -> dict[str, str]:
        """Return an object of texts."""
        child = self.node(key)
        return {name: child.text(name) for name in child.keys()}  # noqa: SIM118 - no dict

    def keys(self) -> Iterable[str]:
        """Return the names of the fields."""
        return self._fields.keys()

    def only(self, key: str, allowed: Iterable[Any], message: str) -> None:
        """Refuse a field whose value is another than the allowed ones, or than none."""
        found = self.value(key)
        if found is not None and not any(found == each and type(found) is type(each) for each in allowed):
            self.refuse(key, message)

    def require(self, key: str, message: str) -> None:
        """Refuse an object without a field."""
        if not self.given(key):
            self.refuse(key, message, REQUIRED)

    def refuse(self, key: str, message: str, reason: str = NOT_SUPPORTED) -> None:
        """Refuse a field."""
        self._read.add(key)
        self.problems.refuse(self.at(key), message, reason)

    def close(self, hints: Mapping[str, str] | None = None) -> None:
        """Refuse each field that has a value and that nothing has read. `hints` say more about some."""
        for key, value in self._fields.items():
            if key not in self._read and not _empty(value):
                self.refuse(key, (hints or {}).get(key, "Peloton does not keep this field"))

    def _list(self, key: str) -> list[Any]:
        found = self.value(key)
        if found is None or isinstance(found, list):
            return found or []
        self.problems.refuse(self.at(key), f"{_kind(found)} is not a list", INVALID)
        return []


def _clipped(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT_CHARACTERS else f"{text[:LONGEST_TEXT_CHARACTERS]}…"


def _empty(value: Any) -> bool:
    """Return whether a value says nothing: null, or an object or a list without anything in it."""
    if isinstance(value, Mapping):
        return all(_empty(each) for each in value.values())
    return value is None or value == []


def _kind(value: Any) -> str:
    kinds = {
        "bool": "a boolean",
        "int": "an integer",
        "float": "a number",
        "str": "a string",
        "list": "a list",
    }
    return kinds.get(type(value).__name__, "an object")

"""Statements by name, from the files `cql/*.cql`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"-- name: (\w+)\n")


@cache
def statements() -> Mapping[str, str]:
    """Return all statements by name."""
    found: dict[str, str] = {}
    for file in (files(__package__) / "cql").iterdir():
        if file.name.endswith(".cql"):
            for name, text in _named(file.read_text(encoding="utf-8")):
                if name in found:
                    raise ValueError(f"{file.name}: the name {name} is taken")
                found[name] = text
    return found


def conditional(text: str) -> bool:
    """Return whether the statement has a condition, and so must not be repeated blindly."""
    return re.search(r"\bIF\b", text) is not None


def _named(content: str) -> Iterator[tuple[str, str]]:
    pieces = _NAME.split(content)
    for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
        yield name, text.strip().rstrip(";")

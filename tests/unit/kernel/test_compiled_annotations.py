"""What mypyc compiles: a NamedTuple names no class that comes after it, whose import would crash Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.extensions import ROOT, sources

MODULES = sorted(path for group in sources().values() for path in group)


def named_too_early(source: str) -> list[str]:
    """Return the classes of a module that a NamedTuple above them names as the type of a field."""
    classes = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef)]
    lines = {each.name: each.lineno for each in classes}
    found = []
    for each in classes:
        if any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in each.bases):
            fields = [part.annotation for part in each.body if isinstance(part, ast.AnnAssign)]
            names = {node.id for part in fields for node in ast.walk(part) if isinstance(node, ast.Name)}
            found += [name for name in sorted(names) if lines.get(name, 0) > each.lineno]
    return found


def test_a_class_that_comes_later_is_found() -> None:
    first = "class A(NamedTuple):\n    of: list[B] | None\n\nclass B:\n    other: int\n"
    assert named_too_early(first) == ["B"] and not named_too_early(
        "class B: ...\n" + first.partition("\n\n")[0]
    )


@pytest.mark.parametrize("module", MODULES)
def test_no_tuple_names_a_class_that_comes_later(module: str) -> None:
    assert named_too_early((ROOT / Path(module)).read_text()) == []

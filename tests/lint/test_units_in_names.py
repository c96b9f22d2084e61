"""Names of constants and of defaults carry their unit where it is not a plain second."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    "peloton", "jobmgr", "resmgr", "placement", "hostmgr", "archiver", "storage", "minicluster", "simulator"
)  # fmt: skip
SIZE = re.compile(r"\* 1024\b|<< (10|20)\b")
UNITS = {
    "Bytes": "BYTES",
    "Characters": "CHARACTERS",
    "Letters": "CHARACTERS",
    "Digits": "DIGITS",
    "Nanoseconds": "NANOSECONDS",
    "Microseconds": "MICROSECONDS",
    "Milliseconds": "MILLISECONDS",
    "Minutes": "MINUTES",
    "Hours": "HOURS",
    "Days": "DAYS",
}
"""The first word of what is said about a constant, and what its name has then."""


def constants(text: str) -> Iterator[tuple[str, str, str]]:
    """Iterate over the numbers that have names: each name, its value, and what is said about it."""
    for parent in ast.walk(ast.parse(text)):
        body = getattr(parent, "body", None)
        if not isinstance(parent, ast.Module | ast.ClassDef) or not isinstance(body, list):
            continue
        for at, each in enumerate(body):
            after = body[at + 1] if at + 1 < len(body) else None
            said = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                said = str(after.value.value)
            if isinstance(each, ast.Assign):
                for target in each.targets:
                    yield ast.unparse(target), ast.unparse(each.value), said
            elif isinstance(each, ast.AnnAssign) and each.value is not None:
                yield ast.unparse(each.target), ast.unparse(each.value), said


def nameless(text: str) -> list[str]:
    """Return the names of a module's constants that lack their unit."""
    found = []
    for name, value, said in constants(text):
        if not re.fullmatch(r"[-+*/<>() \w.]*\d[-+*/<>() \w.]*", value):
            continue
        unit = UNITS.get(said.split(" ", 1)[0])
        carried = name.upper()
        if unit and unit not in carried:
            found.append(f"{name}: {said.splitlines()[0]}")
        elif SIZE.search(value) and not re.search("BYTES|CHARACTERS|_MB", carried):
            found.append(f"{name} = {value}")
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_carry_their_unit(program: str) -> None:
    found = {
        str(file.relative_to(ROOT)): names
        for file in sorted((ROOT / program).rglob("*.py"))
        if "_pb2" not in file.name and (names := nameless(file.read_text()))
    }
    assert found == {}


def test_a_name_without_its_unit_is_found() -> None:
    assert nameless("MAX_BODY = 64 * 1024\n") == ["MAX_BODY = 64 * 1024"]
    assert nameless('FAILURE = 512\n"""Bytes of a reason."""\n') == ["FAILURE: Bytes of a reason."]
    assert nameless('class A:\n    since: int = 0\n    """Nanoseconds since 1970."""\n') == [
        "since: Nanoseconds since 1970."
    ]
    assert nameless("MAX_BODY_BYTES = 64 * 1024\nPAUSE = 0.2\nMOST_ROWS = 500\n") == []

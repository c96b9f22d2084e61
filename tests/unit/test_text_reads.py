"""No state is read back out of a text for people: what is decided depends on fields.

A text is what is called `message` (in resmgr also `reason`), the details of a gRPC status, or `str` of an
exception. It must not be compared with a text, searched, or taken apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = (
    "jobmgr", "resmgr", "placement", "hostmgr", "storage", "archiver", "minicluster", "simulator", "peloton"
)  # fmt: skip
GENERATED = ("peloton/api", "peloton/private")
PARTS = {"startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix", "find"}
PATTERNS = {"match", "search", "fullmatch", "findall", "finditer"}
OF_OTHERS = {
    "hostmgr/kubernetes/core/states.py": "a kubelet tells only by its text which limit a pod was evicted for",
    "jobmgr/core/task/retry.py": "Mesos tells only by its text that an operator took an agent down",
    "jobmgr/core/task/status_rules.py": "Mesos tells exit codes and signals by the text of a status only",
    "peloton/mesos/session.py": "Mesos tells only by its text that a framework was removed",
    "peloton/present/failures.py": "gRPC tells only by its text why there is no connection",
    "peloton/cli/spec_check.py": "a refusal tells only at the begin of its text which field it is about",
    "peloton/client/failures.py": "gRPC's status is a text; ours has field, value and what is right",
    "peloton/client/following.py": "gRPC tells only by its text that a channel was closed",
    "peloton/client/sync_async.py": "gRPC tells only by its text that a channel was closed",
    "peloton/leaders.py": "gRPC tells only by its text whether there was a connection",
    "peloton/wire/mesos.py": "Mesos tells only by its text that a task id was in use",
    "storage/cassandra/connection.py": "Cassandra's driver tells only by its text what was not created",
    "storage/codec.py": "older programs stored the texts alone",
}
"""Files that read what other programs say in texts alone."""


def _is_text(node: ast.expr, reasons: bool) -> bool:
    """Return whether an expression is a text for people, by its name."""
    match node:
        case ast.Attribute(attr="message"):
            return True
        case ast.Attribute(attr="reason"):
            return reasons
        case ast.Call(func=ast.Attribute(attr="details")):
            return True
        case ast.Call(func=ast.Attribute(attr="lower", value=value)):
            return _is_text(value, reasons)
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return "err" in name or "fail" in name
    return False


def _is_named(node: ast.expr) -> bool:
    """Return whether a variable has the name of a text for people."""
    return isinstance(node, ast.Name) and node.id in ("message", "details")


def _is_fixed(node: ast.expr) -> bool:
    """Return whether an expression is a text that the program has: a literal, a constant, or one it makes."""
    match node:
        case ast.Constant(value=str(value)):
            return bool(value)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_").isupper()
        case ast.Tuple(elts=elements) | ast.Set(elts=elements):
            return any(map(_is_fixed, elements))
        case ast.JoinedStr():
            return True
    return False


def reads(source: str, reasons: bool = False) -> Iterator[int]:
    """Yield the lines in which a text is compared or taken apart."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = (left, right), (right, left)
                known = isinstance(op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn))
                if known and any(_is_text(one, reasons) and _is_fixed(other) for one, other in sides):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in PARTS:
                if _is_text(value, reasons) or _is_named(value):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in PATTERNS:
                if any(_is_text(each, reasons) or _is_named(each) for each in arguments):
                    yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "task.message == THROTTLED",
        "'not found' in error.details()",
        "task.message.startswith(PREFIX)",
        "PATTERN.search(status.message)",
        "STALE in str(error)",
        "gang.reason in ('', UNKNOWN)",
        "error.details() == f'watch {id} is cancelled'",
    ],
)
def test_the_scan_finds(line: str) -> None:
    assert list(reads(line, reasons=True)) == [1]


@pytest.mark.parametrize("line", ["task.message != text", "x in ('a', B)", "not task.message", "x == 'a'"])
def test_the_scan_leaves_alone(line: str) -> None:
    assert list(reads(line, reasons=True)) == []


def test_no_program_reads_a_state_out_of_a_text() -> None:
    found = [
        f"{path}:{line}"
        for program in PROGRAMS
        for file in (ROOT / program).rglob("*.py")
        if not (path := file.relative_to(ROOT).as_posix()).startswith(GENERATED) and path not in OF_OTHERS
        for line in reads(file.read_text(), reasons=program == "resmgr")
    ]
    assert found == []


def test_the_files_that_are_left_out_need_it() -> None:
    assert {path for path in OF_OTHERS if not list(reads((ROOT / path).read_text()))} == set()

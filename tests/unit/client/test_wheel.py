"""The wheel of the client needs nothing but its own modules, gRPC, protobuf and the extras."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.clients import ROOT, _client_modules

EXTRAS = {"kazoo", "yaml"}
ALLOWED = {*sys.stdlib_module_names, "grpc", "google", "peloton", *EXTRAS}
ASKED_FOR_FIRST = {("peloton/client/environment.py", "minicluster")}
"""Imported only where it is there."""


def test_what_its_modules_import() -> None:
    found = {
        (str(file.relative_to(ROOT)), name)
        for file in _client_modules()
        if file.suffix == ".py"
        for name in imported(file)
    }
    assert {each for each in found if each[1] not in ALLOWED} == ASKED_FOR_FIRST


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)

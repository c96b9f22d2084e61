"""The wheel of the client needs nothing but its own modules, gRPC, protobuf, requests and the extras."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.clients import ROOT, _client_modules

EXTRAS = {"kazoo", "yaml"}
ALLOWED = {*sys.stdlib_module_names, "grpc", "google", "requests", "peloton", *EXTRAS}


def test_what_its_modules_import() -> None:
    found = {
        (str(file.relative_to(ROOT)), name)
        for file in _client_modules()
        if file.suffix == ".py"
        for name in imported(file)
    }
    assert not {each for each in found if each[1] not in ALLOWED}


def test_the_package_is_in_it_whole_and_nothing_of_other_programs() -> None:
    found = {file.relative_to(ROOT) for file in _client_modules()}
    assert {file.relative_to(ROOT) for file in (ROOT / "peloton" / "client").glob("*.py")} <= found
    above = {"cli", "web", "present", "daemon", "rpc", "mesos"}
    assert not {each for each in found if each.parts[:1] == ("peloton",) and each.parts[1] in above}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)

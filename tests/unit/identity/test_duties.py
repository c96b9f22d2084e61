"""What each role may call is what its code calls."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from peloton.calls.rpc import Rpc
from peloton.identity.duties import NEEDED
from peloton.identity.methods import for_daemons_only, interface
from peloton.membership.interface import Role

ROOT = Path(__file__).parents[3]


def imported(package: str) -> set[str]:
    """The calls that a daemon's code takes from those of its role."""
    found: set[str] = set()
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == f"peloton.calls.{package}":
                found.update(each.name for each in node.names)
    return found


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_each_role_may_call_what_its_code_calls(role: str) -> None:
    named = vars(import_module(f"peloton.calls.{role}"))
    assert imported(role) == {name for name, each in named.items() if isinstance(each, Rpc)}


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_no_role_takes_the_calls_of_another(role: str) -> None:
    for file in (ROOT / role).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("peloton.calls."):
                assert node.module in (f"peloton.calls.{role}", "peloton.calls.rpc"), file


def test_only_methods_of_the_interface_are_named() -> None:
    for services in NEEDED.values():
        for service, methods in services.items():
            assert methods <= interface()[service]


def test_placement_cannot_kill() -> None:
    killing = {
        (service, method)
        for service, methods in interface().items()
        for method in methods
        if "Kill" in method or "Stop" in method or "Delete" in method
    }
    assert any(for_daemons_only(*each) for each in killing)
    assert not any(method in NEEDED["placement"].get(service, ()) for service, method in killing)

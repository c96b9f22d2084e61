"""What each role may call is what its code calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from peloton.identity.duties import NEEDED
from peloton.identity.methods import for_daemons_only, interface
from peloton.membership.interface import Role

ROOT = Path(__file__).parents[3]
METHODS = {method for methods in interface().values() for method in methods}
CALLS = ("call", "_call", "until_answered")


def called(package: str) -> Iterator[str]:
    """The methods that a daemon's code names in calls."""
    for file in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in CALLS:
                yield from (
                    each.value
                    for each in node.args
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_each_role_may_call_what_it_calls(role: str) -> None:
    found = set(called(role)) & METHODS
    assert found == {method for methods in NEEDED[role].values() for method in methods}


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

"""Policies of other distributions: functions that are registered by entry points and named in settings."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

DEFAULT = "default"
"""The name of Peloton's own policy in each group."""


def registered(group: str) -> Callable[[str], str]:
    """Return a check of a setting: that it names a policy of a group of entry points."""

    def check(name: str) -> str:
        policy(group, name)
        return name

    return check


def policy(group: str, name: str) -> Any:
    """Return the function that is registered by a name in a group of entry points; None for the default.

    Raises ValueError with the names that are there.
    """
    if name == DEFAULT:
        return None
    found = {entry.name: entry for entry in entry_points(group=group)}
    if name not in found:
        known = ", ".join(sorted({DEFAULT, *found}))
        raise ValueError(
            f"no installed distribution registers that name in the entry points {group}; there are: {known}"
        )
    entry = found[name]
    try:
        function = entry.load()
    except Exception as error:  # noqa: BLE001  a module of somebody else may raise anything
        raise ValueError(f"{entry.value} cannot be loaded: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise ValueError(f"{entry.value} is {type(function).__name__}, should be a function")
    return function

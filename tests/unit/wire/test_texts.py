"""Texts of a spec that are too long are refused, with the field and what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.errors import InvalidArgument
from peloton.wire.validation.job import validated
from tests.unit.jobmgr_services.configs import job

LONG = "n" * 100_000
HUGE = "v" * 200_000


def change(path: str, value: Any) -> Any:
    config = job()
    *parts, last = path.split(".")
    target: Any = config
    for part in parts:
        target = getattr(target, part)
    if last == "labels":
        target.labels.add(**value)
    elif last == "variables":
        target.variables.add(**value)
    elif last in ("arguments", "ldapGroups"):
        getattr(target, last).append(value)
    elif last == "ports":
        target.ports.add(**value)
    else:
        setattr(target, last, value)
    return config


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("name", LONG, "name"),
        ("owner", LONG, "owner"),
        ("owningTeam", LONG, "owningTeam"),
        ("description", LONG, "description"),
        ("ldapGroups", LONG, "ldapGroups[0]"),
        ("labels", {"key": LONG, "value": "v"}, "labels[0].key"),
        ("labels", {"key": "k", "value": LONG}, "labels[0].value"),
        ("defaultConfig.name", LONG, "defaultConfig.name"),
        ("defaultConfig.labels", {"key": "k", "value": LONG}, "defaultConfig.labels[0].value"),
        ("defaultConfig.command.value", HUGE, "defaultConfig.command.value"),
        ("defaultConfig.command.arguments", HUGE, "defaultConfig.command.arguments[0]"),
        (
            "defaultConfig.command.environment.variables",
            {"name": "N", "value": HUGE},
            "defaultConfig.command.environment.variables[0].value",
        ),
        (
            "defaultConfig.command.environment.variables",
            {"name": LONG, "value": ""},
            "defaultConfig.command.environment.variables[0].name",
        ),
        ("defaultConfig.ports", {"name": LONG, "value": 80}, "defaultConfig.ports[0].name"),
    ],
)
def test_a_text_that_is_too_long_is_refused(path: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        validated(change(path, value))
    assert caught.value.field == field
    assert "characters long; it has " in str(caught.value)
    assert len(str(caught.value)) < 300


def test_too_many_labels_are_refused() -> None:
    config = job()
    for i in range(1001):
        config.labels.add(key=f"k{i}", value="v")
    with pytest.raises(InvalidArgument, match="a list of at most 1,000"):
        validated(config)


def test_long_texts_within_the_bounds_are_taken() -> None:
    config = job()
    config.name, config.description = "n" * 1024, "d" * 16_384
    config.defaultConfig.command.value = "c" * 131_072
    validated(config)

"""docs/spec.md has every key of a spec, with its meaning."""

from __future__ import annotations

import pytest

from peloton.specs import message_type
from tools.spec_reference import (
    MEANINGS,
    OF_SERVER,
    PAGE,
    TITLES,
    comments,
    default_of,
    documented,
    example_of,
    examples,
    meaning_of,
    messages,
    page,
)

TOLD, KNOWN = comments(), examples()


def test_the_page_is_made_from_the_protos() -> None:
    assert PAGE.read_text() == page(), "make spec"


@pytest.mark.parametrize("kind", TITLES)
def test_each_key_has_a_meaning_a_default_and_an_example(kind: str) -> None:
    lacking = []
    for message in messages(message_type(kind).DESCRIPTOR, TOLD):
        assert documented(message)
        if not (MEANINGS.get(message.full_name) or TOLD.get(message.full_name)):
            lacking.append(message.full_name)
        for field in message.fields:
            meaning = meaning_of(field, TOLD)
            if not meaning or not default_of(field, meaning):
                lacking.append(field.full_name)
            if OF_SERVER not in meaning and not example_of(field, KNOWN):
                lacking.append(f"{field.full_name}: example")
    assert lacking == []


def test_a_key_without_a_comment_is_found() -> None:
    (field,) = [each for each in message_type("job").DESCRIPTOR.fields if each.name == "instanceCount"]
    assert meaning_of(field, TOLD) and not meaning_of(field, {})


def test_units_defaults_and_examples_are_told() -> None:
    text = PAGE.read_text()
    assert "| `cpuLimit` | number of cores, or with a unit |" in text
    assert "| `killGracePeriodSeconds` | number of seconds, or with a unit | 30 |" in text
    assert "### service: ContainerSpec" in text and "| `storage` | text | `sqlite` |" in text


def test_every_setting_of_a_minicluster_has_a_meaning() -> None:
    part = PAGE.read_text().partition("## A minicluster")[2]
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    lacking = [row for row in rows if not row.rsplit("|", 2)[1].strip()]
    assert len(rows) > 30 and lacking == []

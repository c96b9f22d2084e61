"""Output of the commands: aligned tables, YAML for one object, JSON on request."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click
from google.protobuf.message import Message

from peloton.client.plain import as_json
from peloton.client.plain import yaml_text as yaml_text
from peloton.client.texts import clean

GAP = "  "


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows under their heads, columns aligned, one line a row."""
    lines = [list(heads)] + [[clean(cell) for cell in row] for row in rows]
    widths = [max(columns(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        GAP.join(
            cell + " " * (width - columns(cell)) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def columns(text: str) -> int:
    """Return the columns of a text on a terminal: two for a wide letter, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def json_text(value: Any) -> str:
    """Render a message, or plain lists and mappings, as JSON."""
    content = as_json(value) if isinstance(value, Message) else value
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def say(text: str) -> None:
    """Print a line for users on standard error, apart from the output that programs read."""
    click.echo(text, err=True)

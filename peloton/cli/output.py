"""Output of the commands: aligned tables, YAML for one object, JSON on request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from google.protobuf.message import Message

from peloton.cli.text import GAP, columns
from peloton.present.plain import as_json, plain
from peloton.present.plain import yaml_text as yaml_text
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.cli.listing import Listing


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


def field_table(value: Any) -> Listing:
    """Return the fields of a message, or of plain data, with their values, one a line."""
    from peloton.cli.listing import listing

    content = plain(value) if isinstance(value, Message) else value
    return listing(("Field", "Value"), _leaves(content, ""))


def _leaves(content: Any, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(content, dict) and content:
        for key, value in content.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(content, list) and content:
        for index, value in enumerate(content):
            yield from _leaves(value, f"{path}[{index}]")
    else:
        yield path, content


def json_text(value: Any) -> str:
    """Render a message, or plain lists and mappings, as JSON."""
    content = as_json(value) if isinstance(value, Message) else value
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def say(text: str) -> None:
    """Print a line for users on standard error, apart from the output that programs read."""
    click.echo(text, err=True)

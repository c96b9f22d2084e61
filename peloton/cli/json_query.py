"""`--query`: parts of the JSON output, chosen by an expression of JMESPath (https://jmespath.org)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from peloton.errors import Refused, shown


class JsonQuery(click.ParamType[str]):
    """An expression of JMESPath, checked before anything is called."""

    name = "expression"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check an expression, and return it."""
        from jmespath.exceptions import EmptyExpressionError, JMESPathError

        try:
            _compiled(str(value))
        except EmptyExpressionError:
            self.fail("an expression of JMESPath is missing, such as results[].id.value", param, ctx)
        except JMESPathError as error:
            reason = str(error).splitlines()[0]
            self.fail(f"{shown(value)} is no expression of JMESPath: {reason}", param, ctx)
        return str(value)


def chosen(expression: str, value: Any) -> Any:
    """Return what an expression chooses of a message, or of plain data, in its JSON form; None for nothing.

    Raises Refused where a function of the expression does not take what it finds.
    """
    from google.protobuf.message import Message
    from jmespath.exceptions import JMESPathError

    from peloton.present.plain import as_json

    content = as_json(value) if isinstance(value, Message) else value
    try:
        return _compiled(expression).search(content)
    except JMESPathError as error:
        raise Refused(f"--query {shown(expression)}: {error}") from None


def lines(value: Any) -> str:
    """Render for scripts: a text as it is, the elements of a list one a line, the rest as JSON.

    The elements of a list in a list have tabs between them. Nothing for None.
    """
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list):
        yield _cell(value)
        return
    for each in value:
        yield "\t".join(map(_cell, each)) if isinstance(each, list) else _cell(each)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)


def _compiled(expression: str) -> Any:
    import jmespath

    return jmespath.compile(expression)

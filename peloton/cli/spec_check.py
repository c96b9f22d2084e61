"""Specs that commands read: what is wrong with them, with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from peloton.cli.failures import CallFailed
from peloton.client.foreign import recognised
from peloton.client.spec import Parsed, parse_all
from peloton.client.yamltree import SpecError, compose, read_text
from peloton.errors import InvalidArgument, Refused
from peloton.model.plural import plural
from peloton.specs import broken_rule, kind_of, message_type

_FIELD = re.compile(r"(?P<path>[A-Za-z_][\w.\[\]]*): (?P<what>.+)", re.DOTALL)


def read(kind: str, file: str) -> Parsed[Any]:
    """Read the spec of a kind from a YAML file. Raises SpecError, with a hint where it is of another kind."""
    text = read_text(file)
    if foreign := recognised(text, file):
        foreign[0].args = (f"{foreign[0]}; `peloton job validate` lists the keys here",)
        raise foreign[0]
    parsed = parse_all(message_type(kind), compose(text, file), file)
    if not parsed.errors:
        return parsed
    first, others = parsed.errors[0], len(parsed.errors) - 1
    other = _seems(text, file)
    if other not in ("", kind):
        hint = f"this looks like the spec of a {other}, which `{_CREATED_BY[other]}` takes"
        first.args = (f"{first}; {hint}",)
    elif others:
        first.args = (f"{first} (and {plural(others, 'more error')}: `peloton job validate` lists all)",)
    raise first


@contextmanager
def located(parsed: Parsed[Any]) -> Iterator[None]:
    """Put the line of the spec before a refusal of one of its fields, as `job validate` has it.

    The job manager's rules are those that are known here; of what it refuses by others, a field at the begin
    of the text is looked up in the file, and all else stays as it says it.
    """
    try:
        yield
    except InvalidArgument as error:
        error.args = (str(parsed.refused(error.field, error.what)),)
        raise
    except (Refused, CallFailed) as error:
        broken = broken_rule(parsed)
        if broken is not None and str(broken) in str(error):
            error.args = (str(parsed.refused(broken.field, broken.what)),)
        elif (told := _FIELD.match(str(error))) and parsed.has(told["path"]):
            error.args = (str(parsed.located(told["path"], told["what"])),)
        raise


def _seems(text: str, file: str) -> str:
    try:
        return kind_of(compose(text, file))
    except SpecError:
        return ""


_CREATED_BY = {
    "job": "peloton job create",
    "service": "peloton job stateless create",
    "respool": "peloton respool create",
}

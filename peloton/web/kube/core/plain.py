"""JSON from outside: plain values of bounded depth, which can be copied, compared and written again."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MOST_DEPTH = 64
"""Levels of a body. Manifests have about 12, and Python's limit of recursion is far away."""


def parse(text: str) -> Any:
    """Return what a text says. Raises ValueError for what is no JSON, or not plain."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(f"it has more than {MOST_DEPTH} levels") from None
    check(found)
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def check(value: Any) -> None:
    """Refuse what cannot be written as JSON again. Raises ValueError."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise ValueError(f"it has more than {MOST_DEPTH} levels")
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                for key in each:
                    if not isinstance(key, str):
                        raise ValueError(f"{str(key)[:50]} is no name of a field: put it in quotes")
                    _check_one(key)
                below += each.values()
            elif isinstance(each, list):
                below += each
            else:
                _check_one(each)
        level = below


def _check_one(value: Any) -> None:
    if isinstance(value, str):
        if not value.isascii():
            value.encode()  # half of a surrogate pair cannot be: UnicodeEncodeError is a ValueError
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is too large")
    elif value is not None and not isinstance(value, int):
        raise ValueError(f"{type(value).__name__} is no value of JSON")


def size(value: Any, most: int) -> int:
    """Return about how many characters a value has; more than `most` where it has more than these."""
    found, rest = 0, [value]
    while rest and found <= most:
        each = rest.pop()
        found += 1
        if isinstance(each, dict):
            found += sum(map(len, each))
            rest += each.values()
        elif isinstance(each, list):
            rest += each
        elif isinstance(each, str):
            found += len(each)
    return found

"""Reading of JSON that other programs wrote: registries, agents, files.

Python's parser takes more than JSON has, and numbers that no field of ours holds: what is taken for a port or
a size would fail where it is used.
"""

from __future__ import annotations

import json
import math
from typing import Any

LARGEST = 2**64
"""Bound of integers."""


def parse_json(text: str | bytes, strict: bool = True) -> Any:
    """Parse a document. Raises ValueError for any other text.

    NaN, infinities, integers beyond 64 bits, and values that nest too deep are none. Not `strict`: texts may
    contain control characters.
    """
    try:
        return json.loads(
            text, strict=strict, parse_constant=_refuse, parse_float=_finite, parse_int=_integer
        )
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is too large")
    return number


def _integer(text: str) -> int:
    number = int(text) if len(text) <= 20 else LARGEST  # longer ones take long
    if not -LARGEST < number < LARGEST:
        raise ValueError(f"{text[:40]} is too large")
    return number

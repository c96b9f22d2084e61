"""JSON and YAML that is nearly right: values of documents changed, then bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.fuzz import values

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, 10**400, 1e308, float("nan"), float("inf")),
    *(
        float("-inf"),
        "",
        "x",
        "1",
        "1e999",
        "nan",
        "\ud800",
        "é",
        [],
        {},
        [[]],
        {"value": {}},
        [None],
        "//h:1/",
    ),
)


def changed(rng: random.Random, given: Any) -> Any:
    """Return a document in which some values are others, missing or doubled."""
    document = copy.deepcopy(given)
    for _ in range(rng.randint(1, 3)):
        document = _changed(rng, document, 0)
    return document


def _changed(rng: random.Random, value: Any, depth: int) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1 * (depth > 0):
        return _nested(rng) if rng.random() < 0.02 else copy.deepcopy(rng.choice(ODD))
    if isinstance(value, list):
        at = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:at] + value[at : at + 1] * rng.randrange(3) + value[at + 1 :]
        value[at] = _changed(rng, value[at], depth + 1)
        return value
    key = rng.choice(list(value))
    kind = rng.random()
    if kind < 0.15:
        del value[key]
    elif kind < 0.2:
        value[rng.choice(values.TEXTS)] = value.pop(key)
    else:
        value[key] = _changed(rng, value[key], depth + 1)
    return value


def _nested(rng: random.Random) -> Any:
    value: Any = 1
    for _ in range(rng.choice((5, 70, 400))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def as_json(rng: random.Random, given: Any) -> bytes:
    """Return the bytes of a JSON document near the given one; sometimes of something else."""
    kind = rng.random()
    if kind < 0.03:
        return rng.choice((b"[", b'{"a":')) * rng.choice((3, 990, 100_000))
    document = changed(rng, given)
    raw = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return values.mutated(rng, raw) if kind > 0.7 else raw

"""Requests and answers in protobuf's JSON form."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import DecodeError

from peloton.required_fields import missing_fields
from peloton.web.api.failures import CallFailure
from peloton.web.api.methods import Method

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that is half of a character; the other half may follow."""


def parse(method: Method, body: bytes) -> Any:
    """Parse the body of a request; an empty one is an empty message. Raises CallFailure."""
    message = method.request()
    try:
        if body.strip():
            ParseDict(_object(body), message)
    except (ParseError, ValueError, RecursionError) as error:
        text = str(error) or type(error).__name__
        raise _refused(f"{message.DESCRIPTOR.full_name}: {_one_line(text)}") from None
    if missing := missing_fields(message):
        raise _refused(f"{message.DESCRIPTOR.full_name}: required and not given: {', '.join(missing)}")
    return message


def dump(method: Method, answer: bytes) -> dict[str, Any]:
    """Return the JSON form of an answer. Raises CallFailure where its bytes are no such message."""
    try:
        message = method.response.FromString(answer)
    except DecodeError:
        text = f"{method.path}: the answer's bytes are no {method.response.DESCRIPTOR.full_name}"
        raise CallFailure(grpc.StatusCode.INTERNAL, text) from None
    found: dict[str, Any] = MessageToDict(message)
    return found


def encode(value: Any) -> bytes:
    """Return compact JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _object(body: bytes) -> dict[str, Any]:
    """Parse JSON. Raises ValueError, also for what is no object, and for a key that is given twice."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValueError("the body is not UTF-8") from None
    value = json.loads(
        text, object_pairs_hook=_pairs, parse_float=_finite, parse_int=_integer, parse_constant=_constant
    )
    if _SURROGATE.search(text):
        _require_characters(value)
    if not isinstance(value, dict):
        raise ValueError(f"the body is a JSON {type(value).__name__}, not an object")
    return value


def _require_characters(value: Any) -> None:
    """Raise ValueError for a text with an escape that is half of a character: protobuf fails with it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"the escape {half} is half of a character, without the other half") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:i]))
        raise ValueError(f"the key {twice!r} is given twice in one object")
    return found


def _finite(text: str) -> float:
    """Return a number. Raises ValueError where no field can hold it: protobuf would fail with it."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:20]}{'…' * (len(text) > 20)} is larger than any number of a message")
    return value


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _refused(text: str) -> CallFailure:
    return CallFailure(grpc.StatusCode.INVALID_ARGUMENT, text)

"""Encodings of calls and events: protobuf or the JSON of Mesos."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from google.protobuf.message import DecodeError, Message

from peloton.mesos.json import JsonError, decode, encode, missing_fields
from peloton.model.amounts import byte_size

M = TypeVar("M", bound=Message)
Encoding = Literal["protobuf", "json"]


class MalformedMessage(ValueError):
    """The bytes are not a message of the expected kind."""


@dataclass(frozen=True, slots=True)
class Codec:
    """An encoding of messages."""

    content_type: str
    encode: Callable[[Message], bytes]
    _decode: Callable[[bytes, type[Message]], Message]

    def decode(self, body: bytes, kind: type[M]) -> M:
        """Decode a message. Raises MalformedMessage."""
        message = self._decode(body, kind)
        assert isinstance(message, kind)
        return message


def codec(encoding: Encoding) -> Codec:
    """Return the codec of an encoding."""
    if encoding == "json":
        return Codec("application/json", encode, _from_json)
    return Codec("application/x-protobuf", _to_protobuf, _from_protobuf)


def _to_protobuf(message: Message) -> bytes:
    return message.SerializeToString()


def _from_protobuf(body: bytes, kind: type[Message]) -> Message:
    message = kind()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise MalformedMessage(f"not a {kind.__name__} of {byte_size(len(body))}: {error}") from None
    if not message.IsInitialized() and missing_fields(message):
        raise MalformedMessage(f"a {kind.__name__} without required fields")
    return message


def _from_json(body: bytes, kind: type[Message]) -> Message:
    try:
        return decode(body, kind)
    except JsonError as error:
        raise MalformedMessage(str(error)) from None

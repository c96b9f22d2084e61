"""Answers of services that are serialized already."""

from __future__ import annotations

from typing import TypeVar, cast

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


def parsed(cls: type[M], answer: M) -> M:
    """Parse an answer that is typed as the message that its bytes are."""
    return cls.FromString(cast(bytes, answer))

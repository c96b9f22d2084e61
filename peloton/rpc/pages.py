"""Pages that are cut by bytes, so that a client with gRPC's usual limit of 4 MiB an answer can read them.

A client that takes more says so by metadata, and gets pages as large as it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import Message

from peloton.errors import InvalidArgument

ANSWER_BYTES = "peloton-answer-bytes"
"""Key of the metadata by which a client tells how large an answer it takes."""
USUAL_BYTES = 4 * 1024 * 1024
"""What a gRPC client takes where nothing else is set."""
MOST_BYTES = 256 * 1024 * 1024
OVERHEAD_BYTES = 16
"""Bytes of an entry's tag and length, at most."""


def taken_by(context: Any) -> int:
    """Return how large an answer the caller takes. Raises InvalidArgument where it says nonsense."""
    metadata = () if context is None else context.invocation_metadata() or ()
    for key, value in metadata:
        if key == ANSWER_BYTES:
            text = str(value)
            if not (text.isascii() and text.isdigit() and len(text) < 16):
                raise InvalidArgument(ANSWER_BYTES, value, "a number of bytes")
            return min(max(int(text), USUAL_BYTES), MOST_BYTES)
    return USUAL_BYTES


class Room:
    """What is left of an answer: an eighth of it is for all but the page's entries."""

    def __init__(self, most: int = USUAL_BYTES) -> None:
        self._left = most - most // 8
        self._empty = True

    def takes(self, *parts: Message) -> bool:
        """Return whether an entry fits, and count it. The first one always does, or nobody could read it."""
        size = sum(part.ByteSize() + OVERHEAD_BYTES for part in parts)
        if size > self._left and not self._empty:
            return False
        self._left -= size
        self._empty = False
        return True

    def fill(self, target: Any, entries: Iterable[Message]) -> bool:
        """Append entries to a field until one does not fit; return whether all did."""
        for entry in entries:
            if not self.takes(entry):
                return False
            target.append(entry)
        return True


def parts_of(message: Any, most: int = USUAL_BYTES) -> Iterator[Any]:
    """Split a message of a stream: each part has some entries of its repeated fields, in order.

    The other fields are in each part. What fits is one part, the message itself.
    """
    if message.ByteSize() <= most - most // 8:
        yield message
        return
    lists = [field.name for field, _ in message.ListFields() if field.is_repeated]
    rest = type(message)()
    rest.CopyFrom(message)
    for name in lists:
        rest.ClearField(name)
    part, room = type(message)(), Room(most)
    part.CopyFrom(rest)
    for name in lists:
        for entry in getattr(message, name):
            if not room.takes(entry):
                yield part
                part, room = type(message)(), Room(most)
                part.CopyFrom(rest)
                room.takes(entry)
            getattr(part, name).append(entry)
    yield part

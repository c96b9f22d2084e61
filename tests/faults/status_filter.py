"""Loses, repeats and reorders the status updates in a Mesos subscription, on its way through a proxy.

The answer to SUBSCRIBE is a chunked HTTP reply with one RecordIO record a chunk (the project's own master);
other answers pass untouched. A lost update is sent again by its agent until it is acknowledged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from mesos.v1.scheduler import scheduler_pb2 as scheduler

HEAD_END = b"\r\n\r\n"


@dataclass(slots=True)
class Rates:
    """Of an update to be lost, sent twice, held back until after the next record. May change at any time."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0


class UpdateMangler:
    """One connection's."""

    def __init__(self, random_: random.Random, chances: Rates) -> None:
        self._random = random_
        self._chances = chances
        self._buffer = b""
        self._stream = False
        self._begun = False
        self._held: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        if self._begun and not self._stream:
            return data
        self._buffer += data
        if not self._begun:
            return self._head()
        return self._chunks()

    def _head(self) -> bytes:
        head, end, rest = self._buffer.partition(HEAD_END)
        if not end:
            return b""
        self._begun = True
        self._stream = b"transfer-encoding: chunked" in head.lower()
        self._buffer = rest if self._stream else b""
        return head + end + (self._chunks() if self._stream else rest)

    def _chunks(self) -> bytes:
        out = []
        while (chunk := self._next()) is not None:
            out.append(self._passed(chunk))
        return b"".join(out)

    def _next(self) -> bytes | None:
        """A chunk with its frame, once it is whole."""
        size, end, _ = self._buffer.partition(b"\r\n")
        if not end:
            return None
        length = len(size) + 2 + int(size, 16) + 2
        if len(self._buffer) < length:
            return None
        chunk, self._buffer = self._buffer[:length], self._buffer[length:]
        return chunk

    def _passed(self, chunk: bytes) -> bytes:
        """What goes out for a chunk. What was held back goes out after the next record."""
        if not _is_update(chunk):
            held, self._held = self._held, []
            return b"".join([chunk, *held])
        draw = self._random.random()
        lost = self._chances.lost
        twice = lost + self._chances.twice
        late = twice + self._chances.late
        if draw < lost:
            return b""
        if twice <= draw < late:
            self._held.append(chunk)
            return b""
        held, self._held = self._held, []
        return b"".join([chunk, chunk, *held]) if draw < twice else b"".join([chunk, *held])


def _is_update(chunk: bytes) -> bool:
    record = chunk.partition(b"\r\n")[2][:-2].partition(b"\n")[2]
    try:
        return scheduler.Event.FromString(record).type == scheduler.Event.UPDATE
    except DecodeError:
        return False

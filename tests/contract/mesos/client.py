"""A bare HTTP/1.1 client that shows everything: header order, chunks, what ends a stream."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from mesos.v1.master import master_pb2 as master
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from peloton.mesos import json as mesos_json

PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Reply:
    """One reply; header names as sent, in the order sent."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes = b""


def render(method: str, path: str, headers: dict[str, str], body: bytes, host: str) -> bytes:
    """Serialise a request; Host and Content-Length are put right."""
    lines = {**headers, "Host": host}
    if body or "Content-Length" in headers:
        lines["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


class Wire:
    """One TCP connection: requests out, replies in, or one stream of records."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.methods: list[str] = []

    @classmethod
    async def open(cls, host: str, port: int) -> Wire:
        """Connect."""
        return cls(*await asyncio.open_connection(host, port, limit=1 << 26))

    def send(self, method: str, data: bytes) -> None:
        """Write a request without waiting for anything."""
        self.methods.append(method)
        self._writer.write(data)

    async def head(self) -> Reply:
        """Read a status line and headers."""
        raw = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
        lines = raw.decode().split("\r\n")
        _, status, reason = lines[0].split(" ", 2)
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return Reply(int(status), reason, headers)

    async def reply(self) -> Reply:
        """Read one whole reply; a stream's body is left for ``record``."""
        method = self.methods.pop(0)
        reply = await self.head()
        if "Content-Length" in reply.headers and method != "HEAD":
            reply.body = await self._reader.readexactly(int(reply.headers["Content-Length"]))
        if reply.headers.get("Content-Encoding") == "gzip":
            reply.body = gzip.decompress(reply.body)
        return reply

    async def record(self) -> bytes | None:
        """Read one chunk, which must hold exactly one record; None at the terminating chunk.

        Raises EOFError when the connection ends without one.
        """
        line = await self._reader.readline()
        if not line:
            raise EOFError
        chunk = await self._reader.readexactly(int(line, 16) + 2)
        if len(chunk) == 2:
            return None
        length, _, record = chunk[:-2].partition(b"\n")
        assert int(length) == len(record), "a chunk holds exactly one record"
        return record

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


@dataclass(slots=True)
class Stream:
    """A subscription: its events as they come, each offer of an OFFERS event by itself."""

    wire: Wire
    protobuf: bool
    operator: bool = False
    waiting: list[dict[str, Any]] = field(default_factory=list)
    ended: str = ""
    heartbeats: int = 0
    first: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self.task = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            while (record := await self.wire.record()) is not None:
                self._take(self.decode(record))
            self.ended = "chunk"
        except (EOFError, asyncio.IncompleteReadError, ConnectionError):
            self.ended = "eof"
        self.changed.set()

    def decode(self, record: bytes) -> dict[str, Any]:
        """Turn a record into the JSON that Mesos would have sent."""
        if not self.protobuf:
            value: dict[str, Any] = json.loads(record)
            return value
        kind: type[Message] = master.Event if self.operator else scheduler.Event
        return mesos_json.to_dict(kind.FromString(record))

    def _take(self, event: dict[str, Any]) -> None:
        if len(self.first) < 3:
            self.first.append(event["type"])
        if event["type"] == "HEARTBEAT":
            self.heartbeats += 1
        elif event["type"] == "OFFERS":
            self.waiting += [{"type": "OFFER", "offer": offer} for offer in event["offers"]["offers"]]
        else:
            self.waiting.append(event)
        self.changed.set()

    def stop(self) -> None:
        """Hang up and stop reading."""
        if self.task is not None:
            self.task.cancel()
        self.wire.close()

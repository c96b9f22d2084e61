"""Requests and replies of HTTP/1.1, as the master and the agents have them."""

from __future__ import annotations

import gzip
import time
import zlib
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Longest request body, in bytes, also after decompression; longer ones close the connection."""
_GZIP_FROM_BYTES = 1024
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
PROTOBUF = "application/x-protobuf"


@dataclass(slots=True)
class Request:
    """One request. Header names are in lower case; ``path`` is without the query."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Response:
    """One reply. ``file`` with ``(path, bytes)`` sends that file instead of ``body``."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    file: tuple[Path, int] | None = None


def refuse(status: int, sentence: str, *headers: tuple[str, str]) -> Response:
    """Return an error reply with a sentence as its body."""
    return Response(status, sentence.encode(), TEXT, headers)


ACCEPTED = Response(202)
NOT_FOUND = refuse(404, "404 Not Found.")


@dataclass(slots=True)
class _Clock:
    """The Date header, made once a second."""

    second: int = -1
    line: bytes = b""
    accepted: bytes = b""

    def refresh(self) -> None:
        now = int(time.time())
        if now != self.second:
            self.second = now
            self.line = f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
            self.accepted = b"HTTP/1.1 202 Accepted\r\n" + self.line + b"Content-Length: 0\r\n\r\n"


_clock = _Clock()


def _head(status: int, headers: list[tuple[str, str]]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode() + _clock.line + lines.encode() + b"\r\n"
    )


def render(response: Response, request: Request) -> bytes:
    """Serialise a reply, its body gzipped where the client takes that and it pays."""
    _clock.refresh()
    if response is ACCEPTED:
        return _clock.accepted
    body = response.body
    headers = list(response.headers)
    if len(body) > _GZIP_FROM_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 1)
        headers.insert(0, ("Content-Encoding", "gzip"))
    if response.content_type:
        headers.append(("Content-Type", response.content_type))
    headers.append(("Content-Length", str(response.file[1] if response.file else len(body))))
    return _head(response.status, headers) + (b"" if request.method == "HEAD" else body)


def stream_head(content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Serialise the head of a chunked reply."""
    _clock.refresh()
    return _head(200, [("Transfer-Encoding", "chunked"), *headers, ("Content-Type", content_type)])


def chunk(record: bytes) -> bytes:
    """Frame one RecordIO record as one HTTP chunk."""
    length = b"%d\n" % len(record)
    return b"%x\r\n%b%b\r\n" % (len(length) + len(record), length, record)


def gunzip(body: bytes) -> bytes | None:
    """Return an unpacked body; None where it is no gzip, or longer than MAX_BODY_BYTES."""
    engine = zlib.decompressobj(wbits=31)
    try:
        out = engine.decompress(body, MAX_BODY_BYTES)
    except zlib.error:
        return None
    return out if engine.eof else None

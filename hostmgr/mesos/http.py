"""HTTP/1.1 as the driver speaks it: requests as bytes, answers through httptools' parser."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import httptools

from hostmgr.mesos.tls import describe
from peloton.mesos.detector import MasterAddress

READ_SIZE = 256 * 1024
MAX_HEAD = 64 * 1024


class BrokenHttp(OSError):
    """The peer does not speak HTTP as expected; the connection has to go."""


def basic(principal: str, secret: str) -> str:
    """Return the value of the Authorization header."""
    return "Basic " + base64.b64encode(f"{principal}:{secret}".encode()).decode()


class Requests:
    """POST requests to one path of one master; what does not change is put together once."""

    def __init__(self, master: MasterAddress, path: str, headers: Mapping[str, str]) -> None:
        lines = [f"POST {path} HTTP/1.1", f"Host: {master}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._head = ("\r\n".join(lines) + "\r\nContent-Length: ").encode("ascii")

    def post(self, body: bytes) -> bytes:
        """Return a request as bytes."""
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)


class Answer:
    """One answer, as far as it has come."""

    __slots__ = ("body", "complete", "headed", "headers", "keep_alive", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.body: list[bytes] = []
        self.headed = False
        self.complete = False
        self.keep_alive = True

    @property
    def text(self) -> str:
        """Return the body as text."""
        return b"".join(self.body).decode("utf-8", "replace")


class StatusParser:
    """Answers out of a stream of bytes, one after the other, without their headers."""

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._parser = httptools.HttpResponseParser(self)
        self._current = Answer()
        self._size = 0
        self._done: list[Answer] = []

    def feed(self, data: bytes) -> list[Answer]:
        """Return the answers that `data` completes. Raises BrokenHttp."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise BrokenHttp(f"no HTTP answer: {str(error) or type(error).__name__}") from None
        done, self._done = self._done, []
        return done

    # Called by httptools.

    def on_message_begin(self) -> None:
        """Begin an answer."""
        self._current = Answer()
        self._size = 0

    def on_headers_complete(self) -> None:
        """Take the status."""
        self._current.status = self._parser.get_status_code()
        self._current.keep_alive = self._parser.should_keep_alive()
        self._current.headed = True
        self._size = 0

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._size += len(body)
        if self._size > self._max_body:
            raise BrokenHttp(f"the body of an answer is over {self._max_body} bytes")
        self._current.body.append(body)

    def on_message_complete(self) -> None:
        """End an answer."""
        self._current.complete = True
        self._done.append(self._current)


class AnswerParser(StatusParser):
    """Answers with their headers, and the body of one that is under way."""

    @property
    def current(self) -> Answer:
        """Return the incomplete answer; the body of a stream is taken from it piece by piece."""
        return self._current

    def take_body(self) -> bytes:
        """Return what came of the body since the last call."""
        body = b"".join(self._current.body)
        self._current.body.clear()
        self._size = 0
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD:
            raise BrokenHttp(f"the head of an answer is over {MAX_HEAD} bytes")
        self._current.headers[name.decode("latin-1").lower()] = value.decode("latin-1")


def location(value: str) -> MasterAddress:
    """Parse the header `Location: //host:port/path`, which may have a scheme. Raises BrokenHttp."""
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or not host.isascii():
        raise BrokenHttp(f"redirected to {value!r}, which names no host and port")
    return MasterAddress(host, port)


async def connect(
    master: MasterAddress, timeout: float, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection. Raises OSError, TimeoutError among them."""
    name = master.name or master.host
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.open_connection(
                master.host, master.port, limit=READ_SIZE, ssl=tls, server_hostname=name if tls else None
            )
    except ssl.SSLError as error:
        raise BrokenHttp(describe(error, name)) from None
    except ValueError as error:  # of a name that cannot be one of the DNS
        raise BrokenHttp(f"{master} ({name}) is no host: {error}") from None

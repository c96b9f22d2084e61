"""HTTP/1.1 of the driver: requests as bytes, responses parsed by httptools."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import httptools

from peloton.mesos.detector import MasterAddress
from peloton.mesos.tls import describe
from peloton.model.amounts import byte_size

READ_BYTES = 256 * 1024
MAX_HEAD_BYTES = 64 * 1024


class BrokenHttp(OSError):
    """The peer violates HTTP; the connection must be closed."""


def basic(principal: str, secret: str) -> str:
    """Return the value of the Authorization header."""
    return "Basic " + base64.b64encode(f"{principal}:{secret}".encode()).decode()


class Requests:
    """POST requests to one path of one master, with a common head."""

    def __init__(self, master: MasterAddress, path: str, headers: Mapping[str, str]) -> None:
        lines = [f"POST {path} HTTP/1.1", f"Host: {master}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._head = ("\r\n".join(lines) + "\r\nContent-Length: ").encode("ascii")

    def post(self, body: bytes) -> bytes:
        """Return a request as bytes."""
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)


class HttpResponse:
    """A response, as far as it has been received."""

    __slots__ = ("body", "complete", "has_head", "headers", "keep_alive", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case."""
        self.body: list[bytes] = []
        self.has_head = False
        self.complete = False
        self.keep_alive = True

    @property
    def text(self) -> str:
        """Return the body as text."""
        return b"".join(self.body).decode("utf-8", "replace")


class HeaderlessParser:
    """Parse a stream of responses without their headers."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._parser = httptools.HttpResponseParser(self)
        self._current = HttpResponse()
        self._size = 0
        self._done: list[HttpResponse] = []

    def feed(self, data: bytes) -> list[HttpResponse]:
        """Return the responses that `data` completes. Raises BrokenHttp."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise BrokenHttp(f"no HTTP response: {str(error) or type(error).__name__}") from None
        done, self._done = self._done, []
        return done

    # Called by httptools.

    def on_message_begin(self) -> None:
        """Begin a response."""
        self._current = HttpResponse()
        self._size = 0

    def on_headers_complete(self) -> None:
        """Record the status."""
        self._current.status = self._parser.get_status_code()
        self._current.keep_alive = self._parser.should_keep_alive()
        self._current.has_head = True
        self._size = 0

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._size += len(body)
        if self._size > self._max_body_bytes:
            raise BrokenHttp(f"the body of a response is over {byte_size(self._max_body_bytes)}")
        self._current.body.append(body)

    def on_message_complete(self) -> None:
        """Complete a response."""
        self._current.complete = True
        self._done.append(self._current)


class ResponseParser(HeaderlessParser):
    """Parse responses with their headers, and give access to an incomplete one."""

    @property
    def current(self) -> HttpResponse:
        """Return the incomplete response."""
        return self._current

    def take_body(self) -> bytes:
        """Return and clear the part of the body received since the last call."""
        body = b"".join(self._current.body)
        self._current.body.clear()
        self._size = 0
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._size += len(name) + len(value)
        if self._size > MAX_HEAD_BYTES:
            raise BrokenHttp(f"the head of a response is over {byte_size(MAX_HEAD_BYTES)}")
        self._current.headers[name.decode("latin-1").lower()] = value.decode("latin-1")


def location(value: str) -> MasterAddress:
    """Parse the value of a header `Location: //host:port/path`, with or without scheme. Raises BrokenHttp."""
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
                master.host, master.port, limit=READ_BYTES, ssl=tls, server_hostname=name if tls else None
            )
    except ssl.SSLError as error:
        raise BrokenHttp(describe(error, name)) from None
    except ValueError as error:  # a name that is not valid in the DNS
        raise BrokenHttp(f"{master} ({name}) is not a host: {error}") from None

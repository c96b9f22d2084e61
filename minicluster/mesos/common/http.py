"""A small HTTP/1.1 server for the master and the agents, made for many small pipelined calls.

Handlers are plain functions: a request in, a response out, answered in order. All replies to what one read
brought are written at once. A handler may instead take the connection over, for a chunked stream
(``start_stream``) or for a protocol of its own (``upgrade``). What Mesos does is kept (recording
``06-http-details``): a stream is chunked even for HTTP/1.0, calls on a stream's own connection are answered
in the middle of it, half-closing ends the connection, what is not HTTP closes it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import httptools

from minicluster.mesos.common.http_messages import (
    MAX_BODY_BYTES,
    Request,
    Response,
    chunk,
    gunzip,
    render,
    stream_head,
)
from minicluster.mesos.common.real_files import open_real

MAX_HEAD_BYTES = 256 * 1024
"""Longest request line and headers together, in bytes, give or take one read; longer ones close it."""
MAX_UNREAD_BYTES = 128 * 1024 * 1024
"""A stream whose reader has left more than this unread is cut off."""
_PIECE_BYTES = 256 * 1024

log = logging.getLogger(__name__)


Handler = Callable[[Request, "Connection"], Response | None]


class Body(Protocol):
    """Takes the body of a request piece by piece, while it comes."""

    def feed(self, data: bytes) -> None:
        """Take a piece."""

    def end(self) -> Response:
        """Answer the request: its body has ended, or its connection was lost."""


Streamed = Callable[[Request, "Connection"], "Body | None"]
"""Returns what takes the body of a request whose head has come, None for one that is handled as a whole."""


class Upgraded(Protocol):
    """What takes a connection over after ``Connection.upgrade``."""

    def data_received(self, data: bytes) -> None:
        """Take bytes as they come."""

    def connection_lost(self) -> None:
        """Handle the loss of the connection."""


_MAX_NAMES = 256
_names: dict[bytes, str] = {}
"""Header names as they were sent, in lower case: nearly all requests have the same few."""


@dataclass(slots=True)
class _Incoming:
    """A request while it is being parsed."""

    url: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)
    size: int = 0
    taker: Body | None = None


class Connection(asyncio.Protocol):
    """One client's connection; also the callbacks object of the parser."""

    def __init__(
        self,
        handler: Handler,
        after: Callable[[], None],
        open_connections: set[Connection],
        streamed: Streamed | None = None,
    ) -> None:
        self._handler = handler
        self._streamed = streamed
        self._after = after
        self._open = open_connections
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._incoming = _Incoming()
        self._out: list[bytes] = []
        self._reading = False
        self._ended = False
        self._in_head = False
        self._head_size = 0
        self._file: Any = None
        self._upgraded: Upgraded | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.streaming = False
        self.closes_after_stream = False
        self.on_lost: Callable[[], None] | None = None

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner of the stream or of the upgraded protocol."""
        self._open.discard(self)
        self._transport = None
        self._writable.set()
        if self._upgraded is not None:
            self._upgraded.connection_lost()
        if self._incoming.taker is not None:
            self._incoming.taker.end()
            self._incoming.taker = None
        if self.on_lost is not None:
            self.on_lost()
        self._after()

    def eof_received(self) -> bool:
        """Close the connection on a half-close."""
        return False

    def pause_writing(self) -> None:
        """Stop sending files: the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Continue to send files."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Parse input, handle the requests that it completes, and write all replies at once."""
        if self._upgraded is not None:
            self._upgraded.data_received(data)
            self._after()
            return
        self._reading = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the handler decided: upgraded, or answered like any other request
        except httptools.HttpParserCallbackError as error:
            url = self._incoming.url.decode("latin-1")
            log.error("%s %s failed", self._method(), url, exc_info=error.__context__ or error)
            self._ended = True
        except httptools.HttpParserError:
            self._ended = True
        if self._in_head:
            self._head_size += len(data)
            self._ended |= self._head_size > MAX_HEAD_BYTES
        self._reading = False
        self._flush()
        self._after()

    # --- parser callbacks ---

    def on_message_begin(self) -> None:
        """Start a request."""
        self._incoming = _Incoming()
        self._in_head = True

    def on_headers_complete(self) -> None:
        """Stop to count the size of the head."""
        self._in_head = False
        self._head_size = 0
        if self._streamed is not None and (request := self._request()) is not None:
            self._incoming.taker = self._streamed(request, self)

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL."""
        self._incoming.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        known = _names.get(name)
        if known is None:
            known = name.decode("latin-1").lower()
            if len(_names) < _MAX_NAMES:
                _names[name] = known
        self._incoming.headers[known] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        incoming = self._incoming
        if incoming.taker is not None:
            incoming.taker.feed(body)
            return
        incoming.size += len(body)
        if incoming.size > MAX_BODY_BYTES:
            self._ended = True
        else:
            incoming.body.append(body)

    def on_message_complete(self) -> None:
        """Handle the request."""
        if self._ended or self._upgraded is not None:
            return
        request = self._request()
        if request is None:
            self._ended = True
            return
        taker, self._incoming.taker = self._incoming.taker, None
        response = taker.end() if taker is not None else self._handler(request, self)
        if response is not None:
            self._reply(response, request)

    def _request(self) -> Request | None:
        incoming = self._incoming
        raw_path, _, query = incoming.url.decode("latin-1").partition("?")
        body = incoming.body[0] if len(incoming.body) == 1 else b"".join(incoming.body)
        if incoming.headers.get("content-encoding") == "gzip":
            unpacked = gunzip(body)
            if unpacked is None:
                return None
            body = unpacked
        return Request(self._method(), raw_path, query, incoming.headers, body)

    def _method(self) -> str:
        return str(self._parser.get_method().decode("latin-1"))

    # --- replies ---

    def keeps_alive(self) -> bool:
        """Return whether the client wants the connection kept after this reply."""
        return bool(self._parser.should_keep_alive())

    def _reply(self, response: Response, request: Request) -> None:
        self.write(render(response, request))
        closing = not self.keeps_alive()
        if response.file is not None and request.method != "HEAD":
            self._file = asyncio.ensure_future(self._send_file(*response.file, closing))
        elif closing:
            self._ended = True

    async def _send_file(self, path: Path, size: int, closing: bool) -> None:
        """Send ``size`` bytes of a file, as fast as they are read; end the connection when that cannot be."""
        left = size
        try:
            opened = open_real(path)
        except OSError:
            self.close()
            return
        with opened as file:
            while left > 0 and self._transport is not None:
                piece = file.read(min(_PIECE_BYTES, left))
                if not piece:
                    break
                left -= len(piece)
                self._transport.write(piece)
                await self._writable.wait()
        if closing or left > 0:
            self.close()

    def write(self, data: bytes) -> None:
        """Write bytes, together with others while a read is being worked off."""
        if self._reading:
            self._out.append(data)
        elif self._transport is not None:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._transport is None:
            return
        if self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()
        if self._ended:
            self._transport.close()

    def close(self) -> None:
        """Close the connection after what was written."""
        self._ended = True
        if not self._reading and self._transport is not None:
            self._transport.close()

    # --- streams ---

    def start_stream(self, content_type: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Begin a chunked reply that goes on until ``end_stream``."""
        self.streaming = True
        self.closes_after_stream = not self.keeps_alive()
        self.write(stream_head(content_type, headers))

    def send_records(self, records: list[bytes]) -> None:
        """Send RecordIO records, one HTTP chunk each."""
        transport = self._transport
        if transport is None or not self.streaming:
            return
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()
            return
        self.write(b"".join(map(chunk, records)))

    def end_stream(self) -> None:
        """Send the terminating chunk; TCP stays open unless the client asked otherwise."""
        if self.streaming and self._transport is not None:
            self.streaming = False
            self.write(b"0\r\n\r\n")
            if self.closes_after_stream:
                self.close()

    async def writable(self) -> None:
        """Wait until the client has read most of what was written, or is gone."""
        await self._writable.wait()

    def hold(self, wait: bool) -> None:
        """Stop reading from the client, or go on."""
        if self._transport is not None:
            (self._transport.pause_reading if wait else self._transport.resume_reading)()

    def upgrade(self, successor: Upgraded, reply: bytes) -> None:
        """Hand the connection over to another protocol, after writing ``reply``."""
        self._upgraded = successor
        self.write(reply)

    @property
    def peer(self) -> str:
        """The client's IP address, empty when it is gone."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(name[0]) if name else ""


class Server:
    """A listening socket with its connections."""

    def __init__(self, handler: Handler, after: Callable[[], None], streamed: Streamed | None = None) -> None:
        """``after`` is called when a batch of input, or a lost connection, has been worked off."""
        self._handler = handler
        self._streamed = streamed
        self._after = after
        self._open: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def serve(self, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections on a socket that is bound and listens."""
        loop = asyncio.get_running_loop()
        make = lambda: Connection(self._handler, self._after, self._open, self._streamed)  # noqa: E731
        self._server = await loop.create_server(make, sock=sock, ssl=tls)

    async def stop(self) -> None:
        """Stop listening and drop all connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._open):
            connection.close()

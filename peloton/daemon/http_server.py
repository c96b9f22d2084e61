"""An HTTP server that bounds what its clients may take: connections, time, sizes of headers.

It is uvicorn's, with the connections accepted here: whose they are counts before the handshake of TLS.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from prometheus_client import Counter, Gauge
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from peloton.config.limits import HttpLimitSettings
from peloton.daemon.descriptors import descriptor_limit
from peloton.daemon.http_connections import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    PROBES,
    SPARE,
    Limits,
    Phase,
    Seat,
    Seats,
)
from peloton.model.amounts import byte_size

if TYPE_CHECKING:
    from peloton.daemon.http_websocket import WebSocket

SWEEP_SECONDS = 0.5
"""Time between two sweeps over the connections, while there are any."""
ACCEPT_PAUSE_SECONDS = 0.1
REFUSED_SECONDS = 0.05
"""Time to send the answer to what is no request."""
CLOSE_SECONDS = 3
"""Time for requests that are under way when the server stops."""
SPARE_TEXT = "too many connections are open (http_limits): only health, metrics and version are answered\n"
MAX_WEBSOCKET_MESSAGE_BYTES = 64 * 1024
PING_SECONDS = 20.0
"""Time between two signs of life of a WebSocket, and for the answer: a client that is gone is seen by it."""
OPEN = Gauge("http_connections", "HTTP connections that are open.")
CLOSED = Counter("http_connections_closed", "HTTP connections closed before their time, by reason.", ["why"])
REFUSED = Counter("http_requests_refused", "HTTP requests refused for a limit, by limit.", ["limit"])
log = logging.getLogger(__name__)


def limits_of(settings: HttpLimitSettings) -> Limits:
    """Return the limits; connections get a quarter of the process's descriptors at most."""
    return Limits(
        min(settings.connections, max(descriptor_limit() // 4, 1)),
        settings.address_connections,
        settings.header_seconds,
        settings.body_seconds,
    )


class BoundedServer(uvicorn.Server):
    """Serves an application on a bound socket, within limits."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        settings: HttpLimitSettings,
        tls: ssl.SSLContext | None = None,
        websocket: type[WebSocket] | None = None,
    ) -> None:
        """With `tls`, it speaks HTTPS.

        `websocket` is the protocol of WebSockets; without it, requests for one are taken for plain ones.
        """
        config = uvicorn.Config(
            Bounded(app),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none" if websocket is None else websocket,
            ws_max_size=MAX_WEBSOCKET_MESSAGE_BYTES,
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            ws_per_message_deflate=False,  # a small message may be a large one
            server_header=False,
            timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type] # a time for call_later
            timeout_graceful_shutdown=CLOSE_SECONDS,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        )
        config.load()
        super().__init__(config)
        self.limits = limits_of(settings)
        self.seats = Seats(self.limits)
        self._listener, self.tls = listener, tls
        self._guests: dict[Guest, None] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._admitting: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()

    def stop(self) -> None:
        """Accept no more connections, and end when the requests under way are answered."""
        self.should_exit = True
        self._woken.set()

    async def run(self) -> None:  # type: ignore[override] # that one makes a loop of its own
        """Answer until told to stop or cancelled."""
        try:
            await self.serve()
        finally:
            await self._close_door()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        self._listener.setblocking(False)
        self._listener.listen(self.config.backlog)
        self.servers = []
        self._accepting = asyncio.create_task(self._accept())
        self._accepting.add_done_callback(lambda _: self._woken.set())
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and finish the requests under way."""
        await self._close_door()
        await super().shutdown()

    async def _close_door(self) -> None:
        tasks = [task for task in (self._accepting, *self._admitting) if task is not None]
        self._accepting = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def main_loop(self) -> None:
        """Look after the connections until told to stop, and sleep while there are none.

        uvicorn wakes ten times a second.
        """
        while not await self.on_tick(0):  # 0: with the time for the next answers' headers
            with suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_SECONDS if self._guests else None):
                    await self._woken.wait()
            self._woken.clear()

    async def on_tick(self, counter: int) -> bool:
        """Close connections that have taken too long; end where accepting has failed."""
        now = time.monotonic()
        for guest in list(self._guests):
            guest.sweep(now)
        OPEN.set(self.seats.open)
        if self._accepting is not None and self._accepting.done():
            self._accepting.result()
        return await super().on_tick(counter)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._listener)
            except OSError as error:  # no descriptors, or the client has gone
                log.warning("an HTTP connection was not accepted: %s", error.strerror)
                await asyncio.sleep(ACCEPT_PAUSE_SECONDS)
                continue
            address = str(peer[0]) if isinstance(peer, tuple) else ""
            guest = Guest(self, connection, address, self.seats.take(address))
            if not self._guests:
                self._woken.set()
            self._guests[guest] = None
            self._make_room()
            guest.admitting = asyncio.create_task(guest.admit())
            self._admitting.add(guest.admitting)
            guest.admitting.add_done_callback(self._admitting.discard)

    def _make_room(self) -> None:
        """Close the oldest connection beyond the limits where there are too many of them."""
        if self.seats.spare > SPARE:
            next(guest for guest in self._guests if guest.seat is Seat.PROBES).close("room")

    def left(self, guest: Guest) -> None:
        """Note that a connection has ended."""
        if self._guests.pop(guest, guest) is None:
            self.seats.leave(guest.address, guest.seat)


class Guest:
    """A connection, from when it was accepted."""

    def __init__(self, server: BoundedServer, connection: socket.socket, address: str, seat: Seat) -> None:
        self.address, self.seat = address, seat
        self._server = server
        self._socket = connection
        self._protocol: _Protocol | WebSocket | None = None
        self.admitting: asyncio.Task[None] | None = None
        self._phase: tuple[Phase, object] = (Phase.HEADER, None)
        self._since = time.monotonic()

    async def admit(self) -> None:
        """Shake hands where TLS is spoken, and hand the connection to the protocol."""
        server = self._server
        seconds = None if server.tls is None else server.limits.seconds(self.seat, Phase.HEADER)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Protocol(server, self),
                self._socket,
                ssl=server.tls,
                ssl_handshake_timeout=seconds,
            )
        except OSError as error:  # among them: no handshake, or none in time
            log.debug("%s: no connection: %s", self.address, error)
            self.lost()
        except asyncio.CancelledError:
            self.lost()
            raise

    def made(self, protocol: _Protocol | WebSocket) -> None:
        """Take the protocol, with which requests begin, or that of a WebSocket which one has become."""
        self._protocol = protocol
        self._phase, self._since = (Phase.HEADER, None), time.monotonic()

    def lost(self) -> None:
        """Note that the connection has ended."""
        self._socket.close()
        self._server.left(self)

    def sweep(self, now: float) -> None:
        """Close the connection where it has been waiting for the client for too long."""
        if self._protocol is None:
            return  # the handshake has a time of its own
        phase = self._protocol.phase()
        if phase != self._phase:
            self._phase, self._since = phase, now
            return
        seconds = self._server.limits.seconds(self.seat, phase[0])
        if seconds is not None and now - self._since > seconds:
            self.close(phase[0].value)

    def close(self, why: str) -> None:
        """End the connection."""
        CLOSED.labels(why).inc()
        if self._protocol is not None:
            self._protocol.transport.abort()
        elif self.admitting is not None:
            self.admitting.cancel()
        self._server.left(self)


class _Protocol(H11Protocol):
    """The protocol of a connection; tells what it is waiting for."""

    def __init__(self, server: BoundedServer, guest: Guest) -> None:
        super().__init__(server.config, server.server_state, {"seat": guest.seat})
        self._guest = guest
        if server.config.ws_protocol_class is not None:
            made: Any = server.config.ws_protocol_class
            self.ws_protocol_class = partial(made, guest)  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._guest.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._guest.lost()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or too large for one, and read no more of it."""
        super().send_400_response(msg)
        # TLS would take what comes until the client has said goodbye.
        self.loop.call_later(REFUSED_SECONDS, self.transport.abort)

    def phase(self) -> tuple[Phase, object]:
        """Return what it is waiting for, and for which request."""
        cycle: Any = self.cycle
        if cycle is None:
            return Phase.HEADER, None
        if cycle.response_complete:
            return (Phase.HEADER if self.timeout_keep_alive_task is None else Phase.NEXT), cycle
        if self.flow.write_paused:
            return Phase.READER, cycle
        return (Phase.BODY if cycle.more_body else Phase.ANSWER), cycle


class Bounded:
    """Refuses requests with headers beyond the limits, and all but probes on connections beyond them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        await (answer or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = scope["headers"]
        if len(headers) > MAX_HEADERS:
            return _refuse(431, "headers", f"more than {MAX_HEADERS} headers\n")
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        size += len(scope["raw_path"]) + len(scope["query_string"])
        if size > MAX_HEADER_BYTES:
            return _refuse(431, "header_bytes", f"more than {byte_size(MAX_HEADER_BYTES)} of headers\n")
        if scope["state"].get("seat") is Seat.PROBES:
            return None if scope["path"] in PROBES else _refuse(503, "connections", SPARE_TEXT)
        return None


def _refuse(status: int, limit: str, text: str) -> PlainTextResponse:
    REFUSED.labels(limit).inc()
    return PlainTextResponse(text, status, {"connection": "close"})

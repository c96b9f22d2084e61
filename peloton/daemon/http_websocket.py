"""WebSockets of the bounded HTTP server: apart from it, since most daemons have none."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from peloton.daemon.http_connections import Phase


class Guest(Protocol):
    """A connection of the server."""

    def made(self, protocol: WebSocket) -> None:
        """Take the protocol that it has become."""
        ...

    def lost(self) -> None:
        """Note that it has ended."""
        ...


class WebSocket(WSProtocol):
    """The protocol of a connection that has become a WebSocket; it goes on to count as a connection."""

    def __init__(self, guest: Guest, **rest: Any) -> None:
        """Take what uvicorn gives such a protocol."""
        super().__init__(**rest)
        self._guest = guest

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection over from the protocol of requests."""
        super().connection_made(transport)
        self._guest.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        super().connection_lost(exc)
        self._guest.lost()

    def phase(self) -> tuple[Phase, object]:
        """Return what it is waiting for. A WebSocket may be silent: pings tell whether its client lives."""
        return (Phase.ANSWER if self.writable.is_set() else Phase.READER), None

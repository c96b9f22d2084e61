"""WebSockets of the bounded HTTP server: connections among others, silent ones, sizes of messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from httpx2.websockets import WebSocketDisconnect, WebSocketUpgradeError
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket as Socket

from peloton.config.limits import HttpLimitSettings
from peloton.daemon.http import bound_socket
from peloton.daemon.http_connections import Seat
from peloton.daemon.http_server import MAX_WEBSOCKET_MESSAGE_BYTES, SWEEP_SECONDS, BoundedServer
from peloton.daemon.http_websocket import WebSocket

DEADLINE = 30.0
SHORT = HttpLimitSettings(header_seconds=0.2, body_seconds=0.2, idle_seconds=0.2, connections=2)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "websocket" and scope["state"]["seat"] is Seat.ANY
    socket = Socket(scope, receive, send)
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)


@asynccontextmanager
async def serving(protocol: type[WebSocket] | None = WebSocket) -> AsyncIterator[tuple[BoundedServer, str]]:
    listener = bound_socket("127.0.0.1", 0)
    server = BoundedServer(echo, listener, SHORT, websocket=protocol)
    task = asyncio.create_task(server.run())
    try:
        yield server, f"ws://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.stop()
        async with asyncio.timeout(DEADLINE):
            await task


async def until_open(server: BoundedServer, count: int) -> None:
    async with asyncio.timeout(DEADLINE):
        while server.seats.open != count:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


async def test_one_that_is_silent_stays_and_counts_as_a_connection() -> None:
    async with (
        serving() as (server, address),
        httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as client,
    ):
        async with client.websocket(address) as socket:
            await asyncio.sleep(3 * SWEEP_SECONDS)  # longer than the limits of a request
            await socket.send_text("still here")
            assert await socket.receive_text() == "still here"
            assert server.seats.open == 1
        await until_open(server, 0)


async def test_a_message_that_is_too_large_ends_it() -> None:
    async with (
        serving() as (server, address),
        httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as client,
    ):
        async with client.websocket(address) as socket:
            await socket.send_text("x" * MAX_WEBSOCKET_MESSAGE_BYTES)
            assert len(await socket.receive_text()) == MAX_WEBSOCKET_MESSAGE_BYTES
            await socket.send_text("x" * (MAX_WEBSOCKET_MESSAGE_BYTES + 1))
            with pytest.raises(WebSocketDisconnect) as caught:
                await socket.receive_text()
            assert caught.value.code == 1009
        await until_open(server, 0)


async def test_connections_beyond_the_limit_become_none() -> None:
    async with (
        serving() as (_, address),
        httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as client,
        client.websocket(address),
        client.websocket(address),
    ):
        with pytest.raises(WebSocketUpgradeError) as caught:
            async with client.websocket(address):
                pass
        assert caught.value.response.status_code == 503

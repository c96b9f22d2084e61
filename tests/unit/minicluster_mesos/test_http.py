"""The HTTP server of the master and the agents."""

from __future__ import annotations

import asyncio

import pytest

from minicluster.mesos.common.http import Connection, Server
from minicluster.mesos.common.http_messages import Request, Response
from minicluster.mesos.common.server_process import listen


async def test_a_handler_that_fails_ends_the_connection_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handle(request: Request, connection: Connection) -> Response:
        raise KeyError("what is not there")

    server, socket = Server(handle, lambda: None), listen("127.0.0.1", 0)
    await server.serve(socket)
    try:
        reader, writer = await asyncio.open_connection(*socket.getsockname())
        writer.write(b"GET /state HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
    finally:
        await server.stop()
    assert "KeyError: 'what is not there'" in caplog.text and "GET /state" in caplog.text

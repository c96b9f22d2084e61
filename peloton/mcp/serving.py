"""How the server is reached: by standard input and output, or by HTTP."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any, BinaryIO, cast

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from peloton.config.encryption import TlsSettings
from peloton.config.limits import HttpLimitSettings
from peloton.daemon.http import bound_socket
from peloton.daemon.http_server import BoundedServer
from peloton.rpc.tls import tls_of
from peloton.web.security import host_names

PATH = "/mcp"
MOST_MESSAGE_BYTES = 1024 * 1024
"""Bytes of a message of a client."""
TOO_LONG = "{}\n"
"""Stands for a message that is too long: it is none of the protocol, and is answered as such."""


class BoundedLines:
    """The lines of standard input; one that is longer than a message may be is read over."""

    def __init__(self, stream: BinaryIO, most: int = MOST_MESSAGE_BYTES) -> None:
        self._stream, self._most = stream, most

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the lines until the end."""
        while line := await anyio.to_thread.run_sync(self._line, abandon_on_cancel=True):
            yield line

    def _line(self) -> str:
        line = self._stream.readline(self._most + 1)
        if len(line) <= self._most or line.endswith(b"\n"):
            return line.decode("utf-8", "replace")
        while line and not line.endswith(b"\n"):
            line = self._stream.readline(self._most)
        return TOO_LONG


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve one client until it closes our standard input."""
    low = server._lowlevel_server
    lines = cast("anyio.AsyncFile[str]", BoundedLines(sys.stdin.buffer))
    async with stdio_server(stdin=lines) as (read, write):
        await low.run(read, write, low.create_initialization_options())


def http_app(server: MCPServer[Any], names: Sequence[str]) -> ASGIApp:
    """Return the application: each request stands for itself, and is answered as JSON.

    `names` are those by which it may be called, without ports.
    """
    hosts = [f"[{name}]" if ":" in name else name for name in names]
    security = TransportSecuritySettings(
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[
            f"{scheme}://{host}{port}"
            for scheme in ("http", "https")
            for host in hosts
            for port in ("", ":*")
        ],
    )
    return server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MOST_MESSAGE_BYTES,
        transport_security=security,
    )


async def serve_http(
    server: MCPServer[Any], host: str, port: int, names: Sequence[str], tls: TlsSettings
) -> None:
    """Serve until a signal says to stop. Raises ConfigError, and Unavailable where the port is in use."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listener = bound_socket(host, port)
    files = tls_of(tls)
    app = http_app(server, sorted(host_names(host, names)))
    running = BoundedServer(app, listener, HttpLimitSettings(), files.http() if files is not None else None)
    bound_host, bound_port = listener.getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    scheme = "http" if files is None else "https"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.session_manager.run())
        serving = asyncio.create_task(running.run())
        print(f"peloton mcp: {scheme}://{shown}:{bound_port}{PATH}", flush=True)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        running.stop()
        stopped.cancel()
        await serving

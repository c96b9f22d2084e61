"""HTTP endpoints of every daemon: /health, /metrics, /version, /logging-level."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from peloton import __version__
from peloton.config.limits import HttpLimitSettings
from peloton.daemon.http_server import BoundedServer
from peloton.daemon.level import Administers, LevelEndpoint
from peloton.errors import Unavailable


class HttpServer:
    """The HTTP server of a daemon."""

    def __init__(
        self,
        health: Callable[[], str],
        remark: Callable[[], str] = lambda: "",
        administers: Administers | None = None,
        local_changes: bool = False,
        tls: ssl.SSLContext | None = None,
        limits: HttpLimitSettings | None = None,
    ) -> None:
        """Use `health` for what is wrong, empty if nothing; /health adds the remark to its OK.

        `administers` tells who may change the log level, without it everybody; with `local_changes`, from
        this machine only. With `tls`, it speaks HTTPS.
        """
        self._limits = limits or HttpLimitSettings()
        self._tls = tls
        self._health = health
        self._remark = remark
        self._level = LevelEndpoint(administers, local_changes)
        self._server: BoundedServer | None = None
        self._socket: socket.socket | None = None

    def bind(self, host: str, port: int) -> int:
        """Bind the port (0: any free one) and return it. Raises Unavailable where it is in use."""
        self._socket = bound_socket(host, port)
        return int(self._socket.getsockname()[1])

    def routes(self) -> list[Route]:
        """Return the endpoints, for an application that has others too."""
        return [
            Route("/health", self._answer_health),
            Route("/metrics", _metrics),
            Route("/version", _version),
            Route("/logging-level", self._level.answer, methods=["POST"]),
        ]

    async def serve(self) -> None:
        """Answer until stopped."""
        assert self._socket is not None, "bind first"
        self._server = BoundedServer(Starlette(routes=self.routes()), self._socket, self._limits, self._tls)
        await self._server.run()

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.stop()

    async def _answer_health(self, request: Request) -> Response:
        wrong = self._health()
        remark = self._remark()
        return PlainTextResponse(wrong or (f"OK\n{remark}" if remark else "OK"), 503 if wrong else 200)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to a port (0: any free one). Raises Unavailable where it is in use."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise Unavailable(f"HTTP port {host}:{port}: {error.strerror}") from None
    return made


async def _metrics(request: Request) -> Response:
    collected = _Collected(list(REGISTRY.collect()))
    # To write out tens of thousands of samples takes a while: others are not to wait for it.
    return Response(await asyncio.to_thread(generate_latest, collected), media_type=CONTENT_TYPE_LATEST)


class _Collected(Collector):
    """Metrics that are collected already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._families


async def _version(request: Request) -> Response:
    return PlainTextResponse(__version__)

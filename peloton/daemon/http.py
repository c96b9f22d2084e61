"""HTTP endpoints of every daemon: /health, /metrics, /version, /logging-level."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from peloton import __version__
from peloton.config.settings import is_loopback
from peloton.daemon.log import LEVELS, LevelSwitch
from peloton.durations import parse_duration
from peloton.errors import InvalidArgument, Unavailable

MAX_LEVEL_SECONDS = 24 * 3600
"""Longest time for which the log level may be changed."""


class HttpServer:
    """The HTTP server of a daemon."""

    def __init__(
        self,
        health: Callable[[], str],
        remark: Callable[[], str] = lambda: "",
        local_changes: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Use `health` for what is wrong, empty if nothing; /health adds the remark to its OK.

        With `local_changes`, the log level is changed from this machine only. With `tls`, it speaks HTTPS.
        """
        self._tls = tls
        self._local_changes = local_changes
        self._health = health
        self._remark = remark
        self._levels = LevelSwitch()
        self._server: _Server | None = None
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
            Route("/logging-level", self._answer_level, methods=["GET", "POST"]),
        ]

    async def serve(self) -> None:
        """Answer until stopped."""
        assert self._socket is not None, "bind first"
        config = uvicorn.Config(
            Starlette(routes=self.routes()), log_config=None, access_log=False, lifespan="off", ws="none"
        )
        config.load()
        config.ssl = self._tls
        self._server = _Server(config)
        await self._server.serve(sockets=[self._socket])

    def stop(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.should_exit = True

    async def _answer_health(self, request: Request) -> Response:
        wrong = self._health()
        remark = self._remark()
        return PlainTextResponse(wrong or (f"OK\n{remark}" if remark else "OK"), 503 if wrong else 200)

    async def _answer_level(self, request: Request) -> Response:
        """Answer /logging-level. HEAD is answered like GET, and changes nothing."""
        if self._local_changes and not (request.client and is_loopback(request.client.host)):
            return PlainTextResponse("the log level is changed from the daemon's own machine only\n", 403)
        try:
            level = _level(request.query_params.get("level", ""))
            seconds = _seconds(request.query_params.get("duration", "5m"))
        except InvalidArgument as error:
            return PlainTextResponse(f"{error}\n", 400)
        if request.method != "HEAD":
            self._levels.set(level, seconds)
            logging.getLogger(__name__).warning("log level %s for %g s", level, seconds)
        return PlainTextResponse(f"{level} for {seconds:g} s\n")


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


def _level(given: str) -> str:
    """Parse a level. Raises InvalidArgument."""
    if given not in LEVELS:
        raise InvalidArgument("level", given, f"one of {', '.join(LEVELS)}")
    return given


def _seconds(given: str) -> float:
    """Parse a duration into seconds. Raises InvalidArgument."""
    try:
        seconds = parse_duration(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= MAX_LEVEL_SECONDS:
        raise InvalidArgument("duration", given, "a time from 1s to 24h, such as 90s, 5m or 2h")
    return seconds


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon."""
        yield


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

"""Metrics of the web UI and of the JSON door."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from prometheus_client import Counter, Gauge, Histogram
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REQUESTS = Counter(
    "web_requests",
    "Requests answered, by the route's path, method and status.",
    ["route", "method", "status"],
)
REQUEST_SECONDS = Histogram(
    "web_request_seconds",
    "Time until an answer begins, by the route's path.",
    ["route"],
    buckets=(0.005, 0.02, 0.1, 0.5, 1, 2, 5, 20),
)
STREAMS = Gauge("web_event_streams", "Event streams that are open.")
DOOR_CALLS = Counter(
    "web_door_calls", "Calls of the JSON door that ended, by method and gRPC code.", ["method", "code"]
)
NO_ROUTE = "none"
"""The route of requests that no route takes, and of those that are refused before."""
_METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class Measured:
    """Counts requests by the route that takes them: paths with ids in them would be without bound."""

    def __init__(
        self, app: ASGIApp, routes: Sequence[BaseRoute], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._app = app
        self._names = names_of(routes)
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = self._clock()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._note(scope, message["status"], self._clock() - begun)
            await send(message)

        await self._app(scope, receive, noted)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._names.get(scope.get("endpoint"), NO_ROUTE)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        REQUESTS.labels(route, method, status).inc()
        REQUEST_SECONDS.labels(route).observe(seconds)


def names_of(routes: Sequence[BaseRoute]) -> Mapping[Hashable, str]:
    """Return the paths of routes by what answers there."""
    names: dict[Hashable, str] = {}
    for route in routes:
        if isinstance(route, Route):
            names.setdefault(route.endpoint, route.path)
        elif isinstance(route, Mount):
            names.setdefault(route.app, route.path)
    return names

"""Pictures are taken of a page of every route."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.routing import Match, Route

from .fake import FakeCluster, application

pytest.importorskip("playwright", reason="pictures are taken by a browser")
from tests.web import lively_places, places, screenshots

NO_PAGES = {
    "/api/": "the same as /api",
    "/api/openapi.json": "JSON",
    **dict.fromkeys(
        (
            "/api/v1", "/api/v1/{path:path}", "/apis", "/apis/", "/apis/{group}", "/apis/{group}/{version}",
            "/apis/{group}/{version}/{path:path}", "/openapi/v2", "/openapi/v3", "/openapi/v3/{path:path}",
        ),
        "for clients of Kubernetes",
    ),
    "/health": "for programs",
    "/jobs/{job_id}/instances/{instance:int}/download": "a file",
    "/jobs/{job_id}/instances/{instance:int}/logs/stream": "events",
    "/live": "events",
    "/metrics": "for programs",
    "/search/lines": "a part of all pages; the step `find` shows it",
    "/version": "for programs",
}  # fmt: skip
"""Routes that browsers do not open as pages, and what they answer with."""


class Jobs(dict[str, str]):
    """An id for any name."""

    def __missing__(self, name: str) -> str:
        return "11111111-1111-4111-8111-111111111111"


def opened() -> list[str]:
    """The addresses that are opened in the tests' cluster and in the busy one."""
    service = SimpleNamespace(id=SimpleNamespace(value="s"))
    harness = SimpleNamespace(pool="p")
    world: Any = SimpleNamespace(batch="b", failed="f", waiting="w", service=service, harness=harness)
    lively: Any = SimpleNamespace(jobs=Jobs(), pool=lambda path: path.strip("/").replace("/", "-"))
    return [*places.places(world).values(), *lively_places.places(lively).values()]


def routes() -> Iterator[Route]:
    """Those that answer to GET."""
    for route in application(FakeCluster({})).routes:
        if isinstance(route, Route) and "GET" in (route.methods or {"GET"}):
            yield route


def matches(route: Route, address: str) -> bool:
    scope = {"type": "http", "method": "GET", "path": address.partition("?")[0], "headers": []}
    return route.matches(Request(scope).scope)[0] is Match.FULL


def test_each_route_has_a_picture() -> None:
    addresses = opened()
    without = {
        route.path for route in routes() if not any(matches(route, address) for address in addresses)
    } - NO_PAGES.keys()
    assert without == set(), "add a page of it to tests/web/places.py, or say in NO_PAGES why it is none"


def test_what_is_no_page_is_still_a_route() -> None:
    assert NO_PAGES.keys() <= {route.path for route in routes()}


def test_each_kind_of_error_has_a_picture() -> None:
    service = SimpleNamespace(id=SimpleNamespace(value="s"))
    world: Any = SimpleNamespace(service=service)
    found = {name.split("-")[1] for name in screenshots.errors(world)}
    assert found >= {"400", "401", "403", "404", "409"}
    assert lively_places.WITHOUT_DAEMONS, "503"

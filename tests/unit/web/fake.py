"""The application over a cluster that answers what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.testclient import TestClient

from peloton.calls.web import RoleRpc
from peloton.client.auth import Auth
from peloton.errors import PelotonError, Unavailable
from peloton.membership.interface import Address, Leadership, Member, Role
from peloton.model.cluster import UNNAMED
from peloton.web.app import make_app
from peloton.web.cluster import A, Calls, Cluster, Q
from peloton.web.config import WebSettings
from peloton.web.live import Hub
from peloton.web.pages import Page, Reader
from peloton.web.requests import Parts
from peloton.web.templating import Templates
from peloton.web.views import PAGES, ROUTES
from tests.unit.web_api.fakes import FakeCaller

Answer = Any | PelotonError | Callable[[Any], Any]
NOW = 1_700_000_000.0
ORIGIN = "http://localhost"


class FakeMembership:
    """Members and leaders that a test puts there."""

    def __init__(self) -> None:
        self.all: dict[Role, dict[str, Member]] = {}
        self.leaders: dict[Role, Address] = {}
        self.wrong = ""

    def add(self, role: Role, name: str, port: int, leads: bool = False) -> None:
        address = Address("host", "127.0.0.1", port, port + 1, "1.0")
        self.all.setdefault(role, {})[name] = Member(role, name, address)
        if leads:
            self.leaders[role] = address

    async def start(self) -> None: ...

    async def join(self, member: Member) -> None:
        raise NotImplementedError

    async def campaign(self, member: Member) -> Leadership:
        raise NotImplementedError

    def leader(self, role: Role, cluster: str = UNNAMED) -> Address | None:
        return self.leaders.get(role)

    def members(self, role: Role, cluster: str = UNNAMED) -> Mapping[str, Member]:
        return self.all.get(role, {})

    def clusters(self) -> Sequence[str]:
        return ()

    async def changed(self) -> None:
        await asyncio.Event().wait()

    def trouble(self) -> str:
        return self.wrong

    async def close(self) -> None: ...


class FakeCalls(Calls):
    """Answers by method; an error is raised, a function is given the request."""

    async def call_unchecked(self, called: RoleRpc[Q, A], request: Q, timeout: float | None = None) -> A:
        cluster = self.cluster
        assert isinstance(cluster, FakeCluster)
        cluster.asked.append((called, called.rpc.name, request))
        answer = cluster.answers.get(called, Unavailable(f"{called.method} does not answer"))
        if isinstance(answer, PelotonError):
            raise answer
        found: A = answer(request) if callable(answer) else answer
        return found


class FakeCluster(Cluster):
    """A cluster whose daemons are not there.

    `asked` has for each call the method, its name, and the request.
    """

    def __init__(self, answers: Mapping[RoleRpc[Any, Any], Answer] | None = None) -> None:
        self.fake = FakeMembership()
        super().__init__(self.fake, 1.0, 0.0)
        self._joined = True
        self.answers: dict[RoleRpc[Any, Any], Answer] = dict(answers or {})
        self.asked: list[tuple[RoleRpc[Any, Any], str, Any]] = []

    def calls(self, auth: Auth | None = None) -> Calls:
        return FakeCalls(self, auth)


def application(
    cluster: FakeCluster,
    pages: Sequence[Page] = PAGES,
    routes: Sequence[BaseRoute] = ROUTES,
    settings: WebSettings | None = None,
    caller: FakeCaller | None = None,
) -> Starlette:
    settings = settings or WebSettings(poll_seconds=0.2, call_seconds=60.0)
    templates = Templates(settings.cluster)
    reader = Reader(pages, templates, cluster, lambda: NOW)
    hub = Hub(reader, settings.poll_seconds, settings.max_watchers)
    return make_app(Parts(settings, cluster, templates, hub, caller or FakeCaller()), pages, routes)


def browser(app: Starlette) -> TestClient:
    return TestClient(app, base_url=ORIGIN, raise_server_exceptions=False)


def token(client: TestClient, path: str = "/") -> str:
    """The token that forms of this browser carry."""
    client.get(path)
    return str(client.cookies["peloton_csrf"])

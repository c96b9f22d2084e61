"""The application: its routes, and what is answered where something fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peloton.calls.web import CHECK_METHODS, GET_CALLER
from peloton.client.auth import Auth, BasicAuth, BearerAuth
from peloton.compiled import remark
from peloton.daemon.http import HttpServer
from peloton.errors import (
    AlreadyExists,
    Conflict,
    InvalidArgument,
    NotFound,
    PelotonError,
    PermissionDenied,
    Refused,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from peloton.identity.authorization_header import metadata_of
from peloton.identity.methods import LOCKDOWN
from peloton.private.access import access_pb2
from peloton.rpc.errors import InvalidRequest
from peloton.web import live, security
from peloton.web.api.door import Door
from peloton.web.kube.core.discovery import legacy_versions
from peloton.web.kube.door import KubernetesDoor
from peloton.web.metrics import STREAMS, Measured
from peloton.web.pages import Found, Moved, Page
from peloton.web.requests import Parts, auth_of, parts, render
from peloton.web.sessions import ByProxy, LoggedIn, Sessions
from peloton.web.templating import STATIC
from peloton.web.views import PAGES, ROUTES
from peloton.web.views.login import login_url, own_page
from peloton.web.views.terminal.bridge import Terminals

log = logging.getLogger(__name__)
STATUSES: tuple[tuple[type[PelotonError], int, str], ...] = (
    (InvalidArgument, 400, "This is not right"),
    (InvalidRequest, 400, "This is not right"),
    (NotFound, 404, "There is no such thing"),
    (AlreadyExists, 409, "It exists already"),
    (Conflict, 409, "Somebody else was first"),
    (Refused, 409, "This was refused"),
    (Unauthenticated, 401, "You are not logged in"),
    (PermissionDenied, 403, "You may not do this"),
    (ResourceExhausted, 429, "Too much at once"),
    (Unavailable, 503, "A part of the cluster does not answer"),
)
LOGGED_OUT = "your login has ended, or there was none, so nothing was done: log in, and send the form again"
NAME_SECONDS = 60.0
"""How long the name of a token's user counts."""
OPEN_TO_PROGRAMS = ("/api", "/apis", "/logging-level")
"""Paths below which requests need no token of a form."""


def make_app(made: Parts, pages: Sequence[Page] = PAGES, routes: Sequence[BaseRoute] = ROUTES) -> Starlette:
    """Return the application."""
    server = HttpServer(
        made.cluster.trouble, remark, administers=partial(_administers, made), local_changes=True
    )
    names = security.host_names(made.settings.host, made.settings.host_names)
    door = Door(made.caller, lambda request, services: render(request, "api.html", {"services": services}))
    door.also = legacy_versions()
    terminals = Terminals(made.settings.terminals)
    kubernetes = KubernetesDoor(made.cluster, made.hub, terminals)
    sessions = Sessions(made.settings.session_hours * 3600)
    served = [
        *(Route(page.path, partial(_shown, page)) for page in pages),
        Route("/live", _live),
        *routes,
        *kubernetes.routes(door.list),
        *door.routes(),
        *server.routes(),
        Mount("/static", _Static(directory=STATIC)),
    ]
    STREAMS.set_function(lambda: made.hub.watched)
    app = Starlette(
        routes=served,
        middleware=[
            Middleware(Measured, routes=served),
            Middleware(security.Guard, names=names, deny=_denied(made), open_to_programs=OPEN_TO_PROGRAMS),
            Middleware(LoggedIn, sessions=sessions, name_of=partial(_name_of, made)),
            Middleware(_Defects),
        ],
        exception_handlers={Moved: _moved, PelotonError: _failed, HTTPException: _http_error},
    )
    app.state.parts = made
    app.state.sessions = sessions
    app.state.kubernetes = kubernetes
    app.state.terminals = terminals
    return app


async def _administers(made: Parts, request: Request) -> None:
    """Ask a daemon whether who sends a request administers the cluster. Nothing is read from cookies."""
    metadata = dict(metadata_of(request.headers.get("authorization")))
    auth: Auth | None = None
    if "username" in metadata:
        auth = BasicAuth(metadata["username"], metadata["password"])
    elif metadata:
        auth = BearerAuth(metadata["authorization"].removeprefix("Bearer "))
    asked = access_pb2.CheckMethodsRequest(methods=[LOCKDOWN.lstrip("/")])
    answer = await made.cluster.calls(auth).call(CHECK_METHODS["jobmgr"], asked)
    (verdict,) = answer.verdicts
    if not verdict.allowed:
        raise PermissionDenied(verdict.reason)


async def _name_of(made: Parts, auth: Auth) -> str:
    """Return the name by which the daemons know a user; empty where they do not, or do not answer."""
    request = access_pb2.GetCallerRequest()
    try:
        caller = await made.cluster.calls(auth).read(GET_CALLER, request, NAME_SECONDS)
    except PelotonError:
        return ""
    return caller.name


async def _shown(page: Page, request: Request) -> Response:
    """Answer with a page."""
    reader = parts(request).hub.reader
    found = Found.of(page, request.url.path, request.path_params, request.query_params.multi_items())
    return render(request, page.template, await reader.load(found, auth_of(request)))


async def _live(request: Request) -> Response:
    return await live.answer(parts(request).hub, request, auth_of(request))


class _Static(StaticFiles):
    def file_response(self, *args: object, **named: object) -> Response:
        """Let browsers keep a file: its address changes with its content."""
        response: Response = super().file_response(*args, **named)  # type: ignore[arg-type]
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response


def _denied(made: Parts) -> Callable[[Scope, int, str], Awaitable[ASGIApp]]:
    """Return what answers requests that are refused before any handler sees them."""

    async def deny(scope: Scope, status: int, why: str) -> ASGIApp:
        # Under a name that is not ours, links lead to the same refusal.
        navigation = made.hub.reader.navigation if status != 421 else ()
        variables = {"status": status, "heading": "This was refused", "text": why, "page": None, "nav": ""}
        html = made.templates.page("error.html", {**variables, "navigation": navigation, "user": ""})
        return HTMLResponse(html, status)

    return deny


async def _moved(request: Request, error: Exception) -> Response:
    assert isinstance(error, Moved)
    return RedirectResponse(error.url, 307, headers={"cache-control": "no-store"})


async def _failed(request: Request, error: Exception) -> Response:
    """Show what was wrong. Who is not logged in is led to the login, and back, unless a proxy does that."""
    stranger = isinstance(error, Unauthenticated)
    if stranger and isinstance(auth_of(request), ByProxy):
        return _error(request, 401, "Your token is not accepted", f"{error}: log in again, at the proxy")
    if stranger and request.method in security.SAFE:
        return RedirectResponse(login_url(_address(request)), 303)
    login = login_url(_page_before(request)) if stranger else ""
    text = LOGGED_OUT if stranger and auth_of(request) is None else str(error)
    for cls, status, heading in STATUSES:
        if isinstance(error, cls):
            return _error(request, status, heading, text, login)
    return _error(request, 502, "A daemon failed", str(error))


def _page_before(request: Request) -> str:
    """Return the address of the page whose form was sent; the first page where the browser does not tell."""
    before = urlsplit(request.headers.get("referer", ""))
    if before.netloc != request.headers.get("host", ""):
        return "/"
    return own_page(f"{before.path}?{before.query}" if before.query else before.path)


def _address(request: Request) -> str:
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _error(request, 404, "There is no such thing", f"there is no page {request.url.path!r}")
    return _error(request, error.status_code, error.detail, f"{request.method} {request.url.path}")


class _Defects:
    """Logs what no handler expected, and answers with a page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            log.exception("%s %s", scope.get("method", scope["type"]), scope.get("path"))
            if started or scope["type"] != "http":
                raise
            text = "the log of peloton-web says more"
            await _error(Request(scope), 500, "The web UI has a defect here", text)(scope, receive, send)


def _error(request: Request, status: int, heading: str, text: str, login: str = "") -> Response:
    """Answer with a page that says what was wrong, and where one logs in if that would help."""
    variables = {"status": status, "heading": heading, "text": text, "login": login}
    return render(request, "error.html", variables, status)

"""What handlers need of a request: the user's calls, the form, rendered answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from peloton.client.auth import Auth
from peloton.errors import InvalidArgument
from peloton.web import security
from peloton.web.api.caller import Caller
from peloton.web.cluster import Calls, Cluster
from peloton.web.config import WebSettings
from peloton.web.live import Hub
from peloton.web.pages import nav_of
from peloton.web.templating import Templates


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the application; in the application's state as `parts`."""

    settings: WebSettings
    cluster: Cluster
    templates: Templates
    hub: Hub
    caller: Caller
    """Makes the calls of the JSON door."""


def parts(request: HTTPConnection) -> Parts:
    """Return the parts of the application."""
    found: Parts = request.app.state.parts
    return found


def auth_of(request: HTTPConnection) -> Auth | None:
    """Return the user who is logged in, None where nobody is."""
    found: Auth | None = request.scope.get("peloton_auth")
    return found


def calls(request: HTTPConnection) -> Calls:
    """Return the calls of the request's user."""
    return parts(request).cluster.calls(auth_of(request))


def field(request: Request, name: str, default: str | None = None) -> str:
    """Return a field of the posted form. Raises InvalidArgument where there is none, and no default."""
    values = security.form_of(request.scope).get(name)
    if values:
        return values[-1]
    if default is None:
        raise InvalidArgument(f"the form's {name}", "", "there: send the form from its page")
    return default


def fields(request: Request, name: str) -> list[str]:
    """Return all values of a field of the posted form."""
    return list(security.form_of(request.scope).get(name, ()))


def render(request: Request, template: str, variables: Mapping[str, Any], status: int = 200) -> Response:
    """Render a page that is no `Page`: a confirmation, an error."""
    reader = parts(request).hub.reader
    filled = {
        "now": reader.clock(),
        "navigation": reader.navigation,
        "page": None,
        "nav": nav_of(request.url.path),
        "url": request.url.path,
        "user": calls(request).user,
        "csrf": security.token_of(request.scope),
        **variables,
    }
    html = parts(request).templates.page(template, filled)
    return HTMLResponse(html, status, headers={"cache-control": "no-store"})


def done(request: Request, url: str) -> Response:
    """Answer a post that was carried out: forget what was read before, and go to a page of ours."""
    parts(request).cluster.shared.forget()
    return RedirectResponse(url, 303)

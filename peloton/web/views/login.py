"""Logging in and out."""

from __future__ import annotations

from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from peloton.calls.web import GET_CALLER
from peloton.client.auth import BasicAuth
from peloton.errors import PelotonError, ResourceExhausted, Unauthenticated
from peloton.private.access import access_pb2
from peloton.web.requests import field, parts, render
from peloton.web.security import cookie
from peloton.web.sessions import COOKIE, Sessions

PATH = "/login"
LONGEST_NAME, LONGEST_PASSWORD = 256, 4096
BEARER = (
    "this cluster takes tokens of an identity provider, no passwords: open the web UI through the proxy that "
    "logs you in there and sends your token along"
)
OPEN = "this cluster asks nobody who they are: no login is needed"


def login_url(url: str) -> str:
    """Return the address of the login page, which leads back to a page of ours."""
    return f"{PATH}?next={quote(url, safe='')}"


def own_page(url: str) -> str:
    """Return a path of ours, where `url` is one, else the first page: no other site is led to."""
    plain = (
        url.startswith("/") and not url.startswith(("//", "/\\")) and url.isprintable() and "\\" not in url
    )
    return url if plain else "/"


def _sessions(request: Request) -> Sessions:
    found: Sessions = request.app.state.sessions
    return found


async def _show(request: Request) -> Response:
    after = own_page(request.query_params.get("next", "/"))
    wrong, _ = await _asked(request, None)
    return _form(request, after, "", wrong if wrong == BEARER else "", 200)


async def _login(request: Request) -> Response:
    """Check a name and a password with the job manager, and begin a session."""
    after, name = own_page(field(request, "next", "/")), field(request, "username").strip()
    password = field(request, "password")
    wrong, status = await _wrong(request, name, password)
    if wrong:
        return _form(request, after, name, wrong, status)
    sessions = _sessions(request)
    sessions.end(cookie(Headers(scope=request.scope), COOKIE))
    answer = RedirectResponse(after, 303)
    answer.set_cookie(
        COOKIE,
        sessions.open(BasicAuth(name, password)),
        max_age=int(sessions.seconds),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


async def _wrong(request: Request, name: str, password: str) -> tuple[str, int]:
    """Return what is wrong with a login, empty where nothing is, and the status of the answer."""
    if not (name and password):
        return "give both name and password", 400
    if not (name.isascii() and password.isascii() and len(name) <= LONGEST_NAME):
        return "username or password is wrong", 401
    if len(password) > LONGEST_PASSWORD:
        return "username or password is wrong", 401
    return await _asked(request, BasicAuth(name, password))


async def _asked(request: Request, auth: BasicAuth | None) -> tuple[str, int]:
    """Ask the job manager who somebody is; return what is wrong, empty where nothing is, and the status."""
    calls = parts(request).cluster.calls(auth)
    try:
        caller = await calls.call(GET_CALLER, access_pb2.GetCallerRequest())
    except Unauthenticated as error:
        bearer = error.challenge.startswith("Bearer ")
        return BEARER if bearer else "username or password is wrong", 401
    except ResourceExhausted as error:
        return str(error), 429
    except PelotonError as error:
        return f"nobody can be asked at the moment: {error}", 503
    return (OPEN, 400) if caller.kind == "nobody" else ("", 200)


def _form(request: Request, after: str, name: str, wrong: str, status: int) -> Response:
    return render(request, "login.html", {"next": after, "name": name, "wrong": wrong}, status)


async def _logout(request: Request) -> Response:
    _sessions(request).end(cookie(Headers(scope=request.scope), COOKIE))
    answer = RedirectResponse(PATH, 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return answer


ROUTES = (
    Route(PATH, _show),
    Route(PATH, _login, methods=["POST"]),
    Route("/logout", _logout, methods=["POST"]),
)

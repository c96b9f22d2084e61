"""What protects the pages: headers, the names by which they may be called, tokens against forged requests."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peloton.model.amounts import byte_size

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def csp_of_terminal(nonce: str) -> str:
    """Return the policy of a page with a terminal, whose library makes style sheets, and styles of cells.

    The sheets carry the nonce; styles of single elements need none, and can load nothing.
    """
    own = f"style-src 'self' 'nonce-{nonce}'; style-src-attr 'unsafe-inline'"
    return CSP.replace("style-src 'self'", own)


HSTS = ("strict-transport-security", "max-age=31536000")
"""Makes browsers use HTTPS alone for a year, for the web UI's own name and no other."""
COOKIE = "peloton_csrf"
FIELD = "csrf"
HEADER = "x-csrf-token"
SUBPROTOCOL_PREFIX = "peloton.csrf."
"""Of the subprotocol that carries the token of a WebSocket: browsers can set no header of these."""
LONGEST_BODY_BYTES = 1024 * 1024
"""Bytes of a form."""
SAFE = ("GET", "HEAD", "OPTIONS")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
Deny = Callable[[Scope, int, str], Awaitable[ASGIApp]]
"""Returns the answer for a request that is refused: with a status, and what was wrong."""


def host_names(listening: str, given: Collection[str]) -> frozenset[str]:
    """Return the names by which browsers may call; none stands for any."""
    if given:
        return frozenset(name.lower() for name in given)
    return frozenset(LOOPBACK) if listening in LOOPBACK or listening.startswith("127.") else frozenset()


def form_of(scope: Scope) -> dict[str, list[str]]:
    """Return the fields of a form that was posted."""
    form: dict[str, list[str]] = scope.get("peloton_form", {})
    return form


def token_of(scope: Scope) -> str:
    """Return the token that forms of this browser carry; a new one is set as a cookie with the answer."""
    token: str = scope["peloton_csrf"]
    return token


class Guard:
    """Refuses unexpected host names and forged posts, and adds the headers to every answer.

    A form carries the token that the browser has as a cookie, which other sites can neither read nor set.
    Requests below the paths `open_to_programs` carry no cookie of ours and need no token: what answers there
    takes no login from a cookie, or checks requests by itself.
    """

    def __init__(
        self, app: ASGIApp, names: Collection[str], deny: Deny, open_to_programs: tuple[str, ...] = ()
    ) -> None:
        self._app = app
        self._names = frozenset(names)
        self._deny = deny
        self._open = open_to_programs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await (await self._checked_socket(scope))(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        held = cookie(headers, COOKIE)
        scope["peloton_csrf"] = held or secrets.token_urlsafe(24)
        secure = scope.get("scheme") == "https"

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
                if secure and _has_name(headers.get("host", "")):
                    own.setdefault(*HSTS)
                if not held and own.get("content-type", "").startswith("text/html"):
                    own.append("set-cookie", _set_cookie(scope["peloton_csrf"], secure))
                message["headers"] = own.raw
            await send(message)

        app, receive = await self._checked(scope, headers, held, receive)
        await app(scope, receive, send_guarded)

    def _wrong_name(self, headers: Headers) -> str:
        """Return why a request's host is not ours, empty where it is."""
        name = _name_of(headers.get("host", ""))
        if not self._names or name in self._names:
            return ""
        why = f"this web UI is not called {name!r}: call it {' or '.join(sorted(self._names))}, or add "
        return f"{why}the name to host_names in its settings"

    async def _checked_socket(self, scope: Scope) -> ASGIApp:
        """Return what answers a request to become a WebSocket."""
        headers = Headers(scope=scope)
        if wrong := self._wrong_name(headers):
            return PlainTextResponse(wrong, 421)
        # What is open to programs reads no cookie. Programs name no origin; browsers always do.
        program = scope["path"].startswith(self._open or ("\0",))
        if wrong := _foreign_socket(headers) if program else _forged_socket(scope, headers):
            return PlainTextResponse(wrong, 403)
        return self._app

    async def _checked(
        self, scope: Scope, headers: Headers, held: str, receive: Receive
    ) -> tuple[ASGIApp, Receive]:
        """Return what answers, and the request's body."""
        if wrong := self._wrong_name(headers):
            return await self._deny(scope, 421, wrong), receive
        if scope["method"] in SAFE or scope["path"].startswith(self._open or ("\0",)):
            return self._app, receive
        body = None if _declared(headers) > LONGEST_BODY_BYTES else await _body(receive)
        if body is None:
            return await self._deny(
                scope, 413, f"a form is longer than {byte_size(LONGEST_BODY_BYTES)}"
            ), receive
        if wrong := _forged(scope, headers, held, body):
            return await self._deny(scope, 403, wrong), receive
        return self._app, _replayed(body, receive)


def _forged_socket(scope: Scope, headers: Headers) -> str:
    """Return why a WebSocket may be another site's, empty where it is ours.

    Browsers let any site open one, with the user's cookies, and tell of whose page it is.
    """
    if not headers.get("origin") or _foreign_socket(headers):
        return f"the connection was opened by another site, {headers.get('origin') or 'unnamed'!r}"
    held = cookie(headers, COOKIE)
    given = next((each for each in scope["subprotocols"] if each.startswith(SUBPROTOCOL_PREFIX)), "")
    token = given.removeprefix(SUBPROTOCOL_PREFIX)
    if not held or not hmac.compare_digest(token.encode(), held.encode()):
        return "the page is from before this browser's present session: reload it"
    return ""


def _foreign_socket(headers: Headers) -> str:
    """Return why a WebSocket is another site's, empty where it is ours, or no page's."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host", ""):
        return f"the connection was opened by another site, {origin!r}"
    return ""


def _forged(scope: Scope, headers: Headers, held: str, body: bytes) -> str:
    """Return why a post may be another site's, empty where it is ours. Keep the fields of its form."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host", ""):
        return f"the form was sent by another site, {origin!r}: open the page here, and send it from there"
    fields = {}
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=10_000)
        except ValueError as error:
            return f"the form cannot be read: {error}"
    scope["peloton_form"] = fields
    given = headers.get(HEADER) or (fields.get(FIELD) or [""])[0]
    if not held or not hmac.compare_digest(given.encode(), held.encode()):
        return (
            "the form is from before this browser's present session: go back, reload the page, send it again"
        )
    return ""


def cookie(headers: Headers, name: str) -> str:
    """Return the value of a cookie, empty where there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _set_cookie(token: str, secure: bool) -> str:
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


def _name_of(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return host


def _declared(headers: Headers) -> int:
    """Return how long a body is said to be."""
    given = headers.get("content-length", "0")
    return int(given) if given.isdecimal() and len(given) < 19 else LONGEST_BODY_BYTES + 1


def _has_name(host: str) -> bool:
    """Return whether a host is called by a name that is its own: HSTS counts for all ports of it."""
    name = _name_of(host)
    return bool(name) and name not in LOOPBACK and not name.replace(".", "").isdecimal() and ":" not in name


async def _body(receive: Receive) -> bytes | None:
    """Read a body; None where it is too long."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part = message.get("body", b"")
        size += len(part)
        if size > LONGEST_BODY_BYTES:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a body that was read already, as it is received."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

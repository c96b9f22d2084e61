"""Who is logged in: sessions of browsers, by a cookie that names one.

Credentials stay in this process. The cookie is 256 random bits, signed with a key of this process: it tells
nothing, counts here only, and ends with the process.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from peloton.client.auth import BasicAuth, BearerAuth
from peloton.web.security import cookie

COOKIE = "peloton_session"
LONGEST_TOKEN_CHARACTERS = 16 * 1024
WITHOUT_USERS = (
    "/static/",
    "/api/",
    "/apis/",
    "/openapi/",
    "/health",
    "/metrics",
    "/version",
    "/logging-level",
)
"""Paths below which nobody is shown who is logged in. The JSON door reads the headers by itself."""
MOST_SESSIONS = 10_000
"""Sessions that are kept; the oldest ones end first."""


@dataclass(frozen=True, slots=True)
class _Session:
    auth: BasicAuth
    until: float


class Sessions:
    """The sessions of all browsers."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """End a session `seconds` after the login."""
        self.seconds = seconds
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._held: dict[str, _Session] = {}

    def open(self, auth: BasicAuth) -> str:
        """Begin a session and return the cookie's value."""
        now = self._clock()
        self._held = {name: held for name, held in self._held.items() if held.until > now}
        while len(self._held) >= MOST_SESSIONS:
            del self._held[next(iter(self._held))]
        name = secrets.token_urlsafe(32)
        self._held[name] = _Session(auth, now + self.seconds)
        return f"{name}.{self._signature(name)}"

    def find(self, value: str) -> BasicAuth | None:
        """Return the user of a cookie's value; None where it is of no session."""
        held = self._held.get(self._name(value))
        return held.auth if held is not None and held.until > self._clock() else None

    def end(self, value: str) -> None:
        """End a session."""
        self._held.pop(self._name(value), None)

    def _name(self, value: str) -> str:
        name, _, signature = value.partition(".")
        return name if hmac.compare_digest(signature.encode(), self._signature(name).encode()) else ""

    def _signature(self, name: str) -> str:
        return hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class ByProxy(BearerAuth):
    """The token of a request: of a user whom a proxy in front of the web UI has logged in.

    Nothing is taken for granted of it: the daemons check it, as they check those of their own callers.
    """

    name: str = ""
    """As the daemons know it; empty where they do not."""

    @property
    def username(self) -> str:
        """The name."""
        return self.name


def bearer_of(headers: Headers) -> str:
    """Return the bearer token of a request, empty where it has none."""
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    plain = re.fullmatch(r"[\x21-\x7e]+", token.strip())
    return (
        plain[0] if scheme.lower() == "bearer" and plain and len(plain[0]) <= LONGEST_TOKEN_CHARACTERS else ""
    )


class LoggedIn:
    """Tells the handlers of a request who makes it: by a bearer token, or else by the session of a cookie."""

    def __init__(
        self, app: ASGIApp, sessions: Sessions, name_of: Callable[[BearerAuth], Awaitable[str]]
    ) -> None:
        """`name_of` asks the daemons for the user's name."""
        self._app = app
        self._sessions = sessions
        self._name_of = name_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] in ("http", "websocket"):
            headers = Headers(scope=scope)
            scope["peloton_auth"] = await self._bearer(scope, headers) or self._session(headers)
        await self._app(scope, receive, send)

    def _session(self, headers: Headers) -> BasicAuth | None:
        held = cookie(headers, COOKIE)
        return self._sessions.find(held) if held else None

    async def _bearer(self, scope: Scope, headers: Headers) -> ByProxy | None:
        token = bearer_of(headers)
        if not token or scope["path"].startswith(WITHOUT_USERS):
            return None
        return ByProxy(token, await self._name_of(ByProxy(token)))

"""Who is logged in: sessions of browsers, by a cookie that names one.

Credentials stay in this process. The cookie is 256 random bits, signed with a key of this process: it tells
nothing, counts here only, and ends with the process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from peloton.client.auth import BasicAuth
from peloton.web.security import cookie

COOKIE = "peloton_session"
MOST_SESSIONS = 10_000
"""Sessions that are kept; the oldest ones end first."""


@dataclass(frozen=True, slots=True)
class _Session:
    auth: BasicAuth
    until: float


class Sessions:
    """The sessions of all browsers."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """End a session so many seconds after the login."""
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


class LoggedIn:
    """Tells the handlers of a request who is logged in."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            held = cookie(Headers(scope=scope), COOKIE)
            scope["peloton_auth"] = self._sessions.find(held) if held else None
        await self._app(scope, receive, send)

"""POST /logging-level: those who administer the cluster change the log level for a while."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from peloton.config.addresses import is_loopback
from peloton.daemon.log import LEVELS, LevelSwitch
from peloton.durations import parse_duration
from peloton.errors import InvalidArgument, PelotonError, PermissionDenied, ResourceExhausted, Unauthenticated
from peloton.identity.authenticators import Credentials
from peloton.identity.authorization_header import metadata_of
from peloton.identity.door import Door
from peloton.identity.methods import LOCKDOWN
from peloton.identity.principal import current
from peloton.model.amounts import duration
from peloton.rpc.audit import Audit
from peloton.rpc.errors import status_of

MAX_LEVEL_SECONDS = 24 * 3600
"""Longest time for which the log level may be changed."""
METHOD = "/logging-level/Set"
"""What the audit log calls it."""
Administers = Callable[[Request], Awaitable[None]]
"""Raises PelotonError where who sends a request may not administer the cluster."""
log = logging.getLogger(__name__)


class LevelEndpoint:
    """Answers requests for another log level."""

    def __init__(self, administers: Administers | None, local: bool = False) -> None:
        """Without `administers`, nobody is asked; with `local`, only this machine's requests are taken."""
        self._administers = administers
        self._local = local
        self._levels = LevelSwitch()

    async def answer(self, request: Request) -> Response:
        """Answer a POST."""
        try:
            self._check_origin(request)
            if self._administers is not None:
                await self._administers(request)
            level = _level(request.query_params.get("level", ""))
            seconds = _seconds(request.query_params.get("duration", "5m"))
        except PelotonError as error:
            return _refusal(error)
        self._levels.set(level, seconds)
        log.warning("log level %s for %g s", level, seconds)
        return PlainTextResponse(f"{level} for {duration(seconds)}\n")

    def _check_origin(self, request: Request) -> None:
        """Raise PermissionDenied for what a page of another site makes a browser send."""
        if self._local and not (request.client and is_loopback(request.client.host)):
            raise PermissionDenied("the log level is changed from this machine only")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
            raise PermissionDenied(f"Origin: {origin!r} is not this site")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise PermissionDenied("a page of another site sent this")


def by_door(door: Door, audit: Audit | None) -> Administers:
    """Return what asks who sends a request, and whether they administer the cluster."""

    async def administers(request: Request) -> None:
        metadata = _shown(request)
        address = request.client.host if request.client else ""
        try:
            found = door.recall(LOCKDOWN, metadata)
            if isinstance(found, Credentials):
                await door.check(LOCKDOWN, found)
        except PelotonError as error:
            if isinstance(error, Unauthenticated):
                error.challenge = door.challenge
            if audit is not None:
                code = status_of(error).name
                audit.note(METHOD, current(), metadata, code, 0.0, why=str(error), address=address)
            raise
        if audit is not None:
            audit.note(METHOD, current(), metadata, "OK", 0.0, address=address)

    return administers


def _shown(request: Request) -> tuple[tuple[str, str], ...]:
    """Return the metadata of who sends a request. Raises Unauthenticated."""
    token = request.headers.get("peloton-token")
    own = (("peloton-token", token),) if token else ()
    return (*own, *metadata_of(request.headers.get("authorization")))


def _refusal(error: PelotonError) -> Response:
    statuses = (
        (InvalidArgument, 400),
        (Unauthenticated, 401),
        (PermissionDenied, 403),
        (ResourceExhausted, 429),
    )
    status = next((status for kind, status in statuses if isinstance(error, kind)), 503)
    challenge = error.challenge if isinstance(error, Unauthenticated) else ""
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    return PlainTextResponse(f"{error}\n", status, headers)


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

"""Settings of what callers may take: calls a second, calls at once, HTTP connections."""

from __future__ import annotations

from pydantic import Field

from peloton.config.base import Settings


class Rate(Settings):
    """A token bucket."""

    rate: float = Field(-1.0, allow_inf_nan=False)
    """Calls a second; negative: no limit."""
    burst: int = Field(100, ge=0)
    """Calls that may come at once."""


class MethodRate(Rate):
    """The token bucket of some methods."""

    methods: str = Field(pattern=r"^[^:\s]+:[^:\s]+$")
    """`service:method`; `*` and `?` stand for any letters."""


class PrincipalRateSettings(Settings):
    """Token buckets that each principal has for itself."""

    methods: tuple[MethodRate, ...] = ()
    """Token buckets of methods; the first one counts whose `methods` matches."""
    default: Rate = Rate()
    """The bucket of all other methods together."""


class RateLimitSettings(Settings):
    """How many calls are served; what exceeds it is answered RESOURCE_EXHAUSTED."""

    methods: tuple[MethodRate, ...] = ()
    """Token buckets of methods; the first one counts whose `methods` matches."""
    default: Rate = Rate()
    """The bucket of all other methods together."""
    principal: PrincipalRateSettings = PrincipalRateSettings()
    """How many calls of each principal are served."""


class CallLimitSettings(Settings):
    """How many calls run and wait; what exceeds it is answered RESOURCE_EXHAUSTED.

    A principal is a user; where auth.type is NOOP, what a caller calls itself (rpc-caller) at its address.
    Daemons are not limited.
    """

    running: int = Field(200, ge=1)
    """Calls that run at once, beside one of each principal. Further ones wait; principals take turns."""
    principal_running: int = Field(100, ge=1)
    """Calls of a principal that run at once."""
    waiting: int = Field(20_000, ge=0)
    """Calls that wait."""
    principal_waiting: int = Field(2_000, ge=0)
    """Calls of a principal that wait."""
    principal_bytes: int = Field(512 * 1024 * 1024, ge=0)
    """Bytes of the requests of a principal that are served or wait. One alone may be larger."""
    principal_streams: int | None = Field(None, ge=0)
    """Streams of a principal, such as watches. Where not set: 500; 1000 where auth.type is NOOP."""
    connection_streams: int = Field(100, ge=1)
    """Calls and streams of a connection; a client holds further ones back by itself. Raise it only for
    clients with many watches: calls of others may wait for as many."""


class HttpLimitSettings(Settings):
    """How much clients of an HTTP port may take. /health, /metrics and /version answer beyond it, too."""

    connections: int = Field(500, ge=1)
    """Connections at a time; no more than a quarter of the open files that the process may have."""
    address_connections: int = Field(250, ge=1)
    """Connections of one address at a time."""
    header_seconds: float = Field(10.0, gt=0)
    """Seconds to send a request's line and headers, and for the handshake of TLS."""
    body_seconds: float = Field(60.0, gt=0)
    """Seconds to send a request's body, and to take a piece of an answer."""
    idle_seconds: float = Field(5.0, gt=0)
    """Seconds after which a connection without a request is closed."""

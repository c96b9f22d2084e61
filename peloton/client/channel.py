"""Blocking gRPC channels with Peloton's metadata, message size and time-out on every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc

MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""Largest message either way (docs/behaviour/system.md)."""

Metadata = Sequence[tuple[str, str]]

CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A daemon that was restarted is found again within a second or two, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 2000),
    # A connection without answers is given up within a call's time-out. Other servers than ours close
    # connections that ping more often.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.http2.ping_timeout_ms", 5000),
    ("grpc.http2.max_pings_without_data", 0),
    # Daemons are not behind the web proxy that the environment may name.
    ("grpc.enable_http_proxy", 0),
)


class CallDetails(NamedTuple):
    """The attributes that gRPC needs of an interceptor's call details."""

    method: str
    timeout: float | None
    metadata: Metadata | None
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Defaults(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
    """Adds to each call the metadata it lacks, and to those with one answer a time-out."""

    def __init__(self, metadata: Metadata, timeout: float | None) -> None:
        self._metadata = tuple(metadata)
        self._timeout = timeout

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._filled(details, self._timeout), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._filled(details, None), request)

    def _filled(self, details: Any, timeout: float | None) -> CallDetails:
        given = tuple(details.metadata or ())
        keys = {key for key, _ in given}
        metadata = given + tuple(pair for pair in self._metadata if pair[0] not in keys)
        return CallDetails(
            details.method,
            timeout if details.timeout is None else details.timeout,
            metadata,
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )


def open_channel(
    address: str,
    metadata: Metadata,
    timeout: float | None,
    credentials: grpc.ChannelCredentials | None = None,
) -> grpc.Channel:
    """Open a channel to `host:port`, encrypted where there are credentials.

    `timeout` is in seconds; None waits without end.
    """
    if credentials is None:
        channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    else:
        channel = grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)
    return grpc.intercept_channel(channel, _Defaults(metadata, timeout))

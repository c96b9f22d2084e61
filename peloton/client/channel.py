"""gRPC channels with Peloton's message size and keepalive, blocking and for asyncio."""

from __future__ import annotations

from collections.abc import Sequence

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
    # Servers bound the calls of a connection: each client has its own ones.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    """Open a blocking channel to `host:port`, encrypted where there are credentials."""
    if credentials is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(address, credentials, options=CHANNEL_OPTIONS)


def open_aio_channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
    """Open a channel of the running loop to `host:port`, encrypted where there are credentials."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.aio.secure_channel(address, credentials, options=CHANNEL_OPTIONS)

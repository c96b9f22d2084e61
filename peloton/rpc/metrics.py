"""Metrics of the gRPC server."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

CALLS = Counter("rpc_calls", "Calls served, by method and status.", ["method", "status"])
CALL_SECONDS = Histogram(
    "rpc_call_seconds",
    "Time to serve a call, long polls included.",
    ["method"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
)
REFUSED = Counter("rpc_refused", "Calls refused before they began, by status.", ["status"])

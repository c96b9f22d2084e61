"""Metrics that every daemon has; each part defines its own beside its code, with prometheus_client."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

HEARTBEAT = Gauge("health_heartbeat", "Set to 1 every 5 s while the event loop turns.")
LEADER = Gauge("health_leader", "1 while this instance leads its role, else 0.")
CALLS = Counter("rpc_calls", "Calls served, by method and status.", ["method", "status"])
CALL_SECONDS = Histogram(
    "rpc_call_seconds",
    "Time to serve a call, long polls included.",
    ["method"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
)

"""Metrics that every daemon has; each part defines its own beside its code, with prometheus_client."""

from __future__ import annotations

from prometheus_client import Gauge

HEARTBEAT = Gauge("health_heartbeat", "Set to 1 every 5 s while the event loop runs.")
HEALTHY = Gauge("health_ok", "1 while /health answers 200, else 0.")
LEADER = Gauge("health_leader", "1 while this instance leads its role, else 0.")

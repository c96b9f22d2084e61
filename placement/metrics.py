"""Metrics of a placement engine."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

PLACED = Counter("placement_tasks_placed", "Tasks for which a host was found, and which resmgr took.")
FAILED = Counter("placement_gangs_failed", "Gangs that went back to resmgr unplaced.")
REJECTED = Counter("placement_tasks_rejected", "Tasks that resmgr did not want placed any more.")
CLAIMED = Counter("placement_hosts_claimed", "Hosts claimed in hostmgr.")
UNUSED = Counter("placement_hosts_unused", "Hosts released again without a task.")
WAITING = Gauge("placement_gangs_waiting", "Gangs taken from resmgr and not yet settled.", ["type"])
RESERVED = Counter("placement_tasks_reserved", "Tasks that got the hosts that were reserved for them.")
BACKFILLED = Counter("placement_tasks_backfilled", "Tasks placed on hosts that are reserved until later.")

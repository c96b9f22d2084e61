"""Metrics of the gRPC server."""

from __future__ import annotations

import re

from prometheus_client import Counter, Gauge, Histogram

CALLS = Counter("rpc_calls", "Calls served, by method and status.", ["method", "status"])
CALL_SECONDS = Histogram(
    "rpc_call_seconds",
    "Time to serve a call, long polls included.",
    ["method"],
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
)
REFUSED = Counter("rpc_refused", "Calls refused before they began, by status.", ["status"])
WAITING = Gauge("rpc_calls_waiting", "Calls that wait for their turn (call_limits.running).")
CALLER_CALLS = Counter(
    "rpc_calls_by_caller", "Calls begun, by what they say of caller and service.", ["caller", "service"]
)
OTHER = "other"
MOST_CALLERS, MOST_SERVICES = 64, 12
"""Names that have series of their own: callers may send any number of them."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")


class _Names:
    """The names that came first."""

    def __init__(self, most: int) -> None:
        self._known: set[str] = set()
        self._most = most

    def name(self, given: str) -> str:
        """Return a name, or what counts in its place."""
        if given in self._known or not given:
            return given
        if len(self._known) >= self._most or not _NAME.fullmatch(given):
            return OTHER
        self._known.add(given)
        return given


class CallsByCaller:
    """Counts calls by caller and service; names beyond a number, and odd ones, count as `other`."""

    def __init__(self, counter: Counter = CALLER_CALLS) -> None:
        self._counter = counter
        self._callers, self._services = _Names(MOST_CALLERS), _Names(MOST_SERVICES)
        self._series: dict[tuple[str, str], Counter] = {}

    def count(self, caller: str, service: str) -> None:
        """Count a call."""
        series = self._series.get((caller, service))
        if series is None:
            series = self._find(caller, service)
        series.inc()

    def _find(self, caller: str, service: str) -> Counter:
        names = self._callers.name(caller), self._services.name(service)
        series = self._counter.labels(*names)
        if names == (caller, service):
            self._series[caller, service] = series
        return series


CALLS_BY_CALLER = CallsByCaller()

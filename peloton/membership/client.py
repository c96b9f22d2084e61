"""kazoo's client, with additions that leadership depends on and kazoo 2.11 lacks.

It reports how long a session the servers granted, since a lease must not last longer, and whether it has
ended for good. One attempt to connect takes a part of the session only, so that a server that is gone leaves
time for the others. After a long break it requests a new session from servers that lost their state.
"""

from __future__ import annotations

import math
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

from peloton.clock import SystemClock

CONNECT_SHARE = 0.2
"""Share of a session's length that one attempt to connect may take."""
MIN_CONNECT_SECONDS = 0.5
STALE_SESSIONS = 2
"""Session lengths without a connection, after which servers need not know the earlier session."""


class Client(KazooClient):  # type: ignore[misc]
    """A client of kazoo that reports the granted session and whether it can still connect."""

    def __init__(self, hosts: str, timeout: float, **settings: Any) -> None:
        """Request sessions of `timeout` seconds."""
        longest = max(timeout * CONNECT_SHARE, MIN_CONNECT_SECONDS)
        super().__init__(hosts=hosts, timeout=timeout, handler=_Handler(longest), **settings)
        self.granted = timeout
        """Seconds for which the servers keep the present session without a message."""
        self._clock = SystemClock()
        self._suspended_at = math.inf
        self.add_listener(self._on_state)
        self._invoke_unchanged = self._connection._invoke
        self._connection._invoke = self._invoke_recorded

    def given_up(self) -> str:
        """Return why it will never connect again though it was not closed, else an empty text."""
        if self.client_state == KeeperState.AUTH_FAILED:
            return "refuses digest credentials"
        # An unexpected exception ends kazoo's thread.
        ended = self._connection.connection_stopped.is_set() and not self._stopped.is_set()
        return "cannot be reached again: kazoo's thread ended, for a reason in the log" if ended else ""

    def _on_state(self, state: str) -> None:
        self._suspended_at = self._clock.monotonic() if state == KazooState.SUSPENDED else math.inf

    def _invoke_recorded(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """Send a request on kazoo's thread; a connect request is adapted, and its answer recorded."""
        if not isinstance(request, Connect):
            return self._invoke_unchanged(timeout, request, xid)
        if self._clock.monotonic() - self._suspended_at > STALE_SESSIONS * self.granted:
            # A server with an older state than its caller has seen does not answer, and the end of the
            # session would never be reported. A server that still has the session resumes it all the same.
            request = request._replace(last_zxid_seen=0)
        answer = self._invoke_unchanged(timeout, request, xid)
        if answer[0].time_out > 0:
            self.granted = answer[0].time_out / 1000
        return answer


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, longest: float) -> None:
        super().__init__()
        self._longest = longest

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        return super().create_connection(*arguments, **{**named, "timeout": self._longest})

"""kazoo's client, with what leadership depends on and kazoo 2.11 keeps to itself or does otherwise.

It tells how long a session the servers granted, for a lease must not last longer; and when it has ended for
good, for nothing is heard of it then. A machine that is gone holds it up for a part of the session only, not
for all of it, when other servers would answer. Servers that lost what they knew get it to begin anew.
"""

from __future__ import annotations

import math
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

from peloton.clock import SystemClock

CONNECT_PART = 0.2
"""Of a session's length: what one attempt to connect may take."""
LEAST_CONNECT_SECONDS = 0.5
FORGOTTEN = 2
"""Sessions' lengths without a connection, after which a session of before is not insisted on."""


class Client(KazooClient):  # type: ignore[misc]
    """A client of kazoo that reports the granted session and the end of all hope to connect."""

    def __init__(self, hosts: str, timeout: float, **settings: Any) -> None:
        """Request sessions of `timeout` seconds."""
        longest = max(timeout * CONNECT_PART, LEAST_CONNECT_SECONDS)
        super().__init__(hosts=hosts, timeout=timeout, handler=_Handler(longest), **settings)
        self.granted = timeout
        """Seconds for which the servers keep the present session when they do not hear of it."""
        self._clock = SystemClock()
        self._broke = math.inf
        self.add_listener(self._note)
        self._shake_hands = self._connection._invoke
        self._connection._invoke = self._noting

    def given_up(self) -> str:
        """Return why it will never connect again though nobody closed it, else an empty text."""
        if self.client_state == KeeperState.AUTH_FAILED:
            return "refuses to hear of digest credentials"
        # An exception that it does not expect ends its thread.
        ended = self._connection.connection_stopped.is_set() and not self._stopped.is_set()
        return "is lost to kazoo, whose thread ended; its reason is in the log" if ended else ""

    def _note(self, state: str) -> None:
        self._broke = self._clock.monotonic() if state == KazooState.SUSPENDED else math.inf

    def _noting(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """On kazoo's thread, before it says that it is connected."""
        if not isinstance(request, Connect):
            return self._shake_hands(timeout, request, xid)
        if self._clock.monotonic() - self._broke > FORGOTTEN * self.granted:
            # A server that knows less than its caller has seen does not answer, and the session would never
            # be told to have ended. One that has the session gives it back all the same.
            request = request._replace(last_zxid_seen=0)
        answer = self._shake_hands(timeout, request, xid)
        if answer[0].time_out > 0:
            self.granted = answer[0].time_out / 1000
        return answer


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, longest: float) -> None:
        super().__init__()
        self._longest = longest

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        return super().create_connection(*arguments, **{**named, "timeout": self._longest})

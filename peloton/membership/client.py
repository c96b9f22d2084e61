"""kazoo's client, with what leadership depends on and kazoo 2.11 keeps to itself or does otherwise.

It tells how long a session the servers granted, for a lease must not last longer; and when it has ended for
good, for nothing is heard of it then. A machine that is gone holds it up for a part of the session only, not
for all of it, when other servers would answer.
"""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KeeperState

CONNECT_PART = 0.2
"""Of a session's length: what one attempt to connect may take."""
LEAST_CONNECT_SECONDS = 0.5


class Client(KazooClient):  # type: ignore[misc]
    def __init__(self, hosts: str, timeout: float, **settings: Any) -> None:
        """`timeout`: the length of session to ask for, in seconds."""
        longest = max(timeout * CONNECT_PART, LEAST_CONNECT_SECONDS)
        super().__init__(hosts=hosts, timeout=timeout, handler=_Handler(longest), **settings)
        self.granted = timeout
        """Seconds for which the servers keep the present session when they do not hear of it."""
        self._shake_hands = self._connection._invoke
        self._connection._invoke = self._noting

    def given_up(self) -> str:
        """Why it will never connect again though nobody closed it, else empty."""
        if self.client_state == KeeperState.AUTH_FAILED:
            return "refuses to hear of digest credentials"
        # An exception that it does not expect ends its thread.
        ended = self._connection.connection_stopped.is_set() and not self._stopped.is_set()
        return "is lost to kazoo, whose thread ended; its reason is in the log" if ended else ""

    def _noting(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        """On kazoo's thread, before it says that it is connected."""
        answer = self._shake_hands(timeout, request, xid)
        if xid is None and answer[0].time_out > 0:
            self.granted = answer[0].time_out / 1000
        return answer


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, longest: float) -> None:
        super().__init__()
        self._longest = longest

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        return super().create_connection(*arguments, **{**named, "timeout": self._longest})

"""kazoo's client, with additions that leadership depends on and kazoo 2.11 lacks.

It reports how long a session the servers granted, since a lease must not last longer, and whether it has
ended for good. With TLS it trusts the given authorities only, where kazoo adds those of the system, and reads
the files again for each connection. One attempt to connect takes a part of the session only, so that a server
that is gone, or that accepts connections and does not answer, leaves time for further attempts. After a long
break it requests a new session from servers that lost their state.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KeeperState

from peloton.clock import SystemClock
from peloton.config.config_error import ConfigError
from peloton.config.tls import describe

CONNECT_SHARE = 0.2
"""Share of a session's length that opening one connection may take."""
ANSWER_SHARE = 1 / 3
"""Share of a session's length in which a server must answer the connect request. ZooKeeper 3.9 never answers
connections that it accepts in its first milliseconds, before its state is there."""
MIN_CONNECT_SECONDS = 0.5
SETTING = "membership.tls"
Tls = Callable[[], ssl.SSLContext]
STALE_SESSIONS = 2
"""Session lengths without a connection, after which servers need not know the earlier session."""


class Client(KazooClient):  # type: ignore[misc]
    """A client of kazoo that reports the granted session and whether it can still connect."""

    def __init__(self, hosts: str, timeout: float, tls: Tls | None = None, **settings: Any) -> None:
        """Request sessions of `timeout` seconds. With `tls`, connections are encrypted by what it returns."""
        longest = max(timeout * CONNECT_SHARE, MIN_CONNECT_SECONDS)
        self._answer_limit = max(timeout * ANSWER_SHARE, MIN_CONNECT_SECONDS)
        self._connecting = _Handler(longest, tls)
        super().__init__(hosts=hosts, timeout=timeout, handler=self._connecting, **settings)
        self.granted = timeout
        """Seconds for which the servers keep the present session without a message."""
        self._clock = SystemClock()
        self._suspended_at = math.inf
        self._begun = False
        """Whether kazoo's thread has begun: until then the connection counts as stopped."""
        self.add_listener(self._on_state)
        self._run_unchanged = self._connection.zk_loop
        self._connection.zk_loop = self._run
        self._invoke_unchanged = self._connection._invoke
        self._connection._invoke = self._invoke_recorded

    @property
    def tls_trouble(self) -> str:
        """Why the last connection could not be encrypted; empty where it could."""
        return self._connecting.trouble

    def given_up(self) -> str:
        """Return why it will never connect again though it was not closed, else an empty text."""
        if self.client_state == KeeperState.AUTH_FAILED:
            return "refuses digest credentials"
        # An unexpected exception ends kazoo's thread.
        stopped = self._begun and self._connection.connection_stopped.is_set()
        ended = stopped and not self._stopped.is_set()
        return "cannot be reached again: kazoo's thread ended, for a reason in the log" if ended else ""

    def _run(self) -> None:
        """Do what kazoo's thread does."""
        self._connection.connection_stopped.clear()
        self._begun = True
        self._run_unchanged()

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
        answer = self._invoke_unchanged(min(timeout, self._answer_limit), request, xid)
        if answer[0].time_out > 0:
            self.granted = answer[0].time_out / 1000
        return answer


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, longest: float, tls: Tls | None) -> None:
        super().__init__()
        self._longest = longest
        self._tls = tls
        self.trouble = ""

    def create_connection(self, *arguments: Any, **named: Any) -> Any:
        opened = super().create_connection(*arguments, **{**named, "timeout": self._longest})
        return opened if self._tls is None else self._encrypted(self._tls, opened, named["hostname"])

    def _encrypted(self, tls: Tls, opened: socket.socket, hostname: str) -> ssl.SSLSocket:
        opened.settimeout(self._longest)
        try:
            found = tls().wrap_socket(opened, server_hostname=hostname)
        except (OSError, ConfigError) as error:
            opened.close()
            failed = describe(error, hostname, SETTING) if isinstance(error, ssl.SSLError) else str(error)
            self.trouble = failed or "TLS: timed out"
            raise ConnectionError(self.trouble) from None
        self.trouble = ""
        return found

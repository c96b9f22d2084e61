"""The connection with the cluster manager, and what depends on it."""

from __future__ import annotations

import math

from hostmgr.core.cluster_manager.events import Address, Registration
from peloton.errors import Unavailable

MESOS = "the Mesos master"


class Connection:
    """The connection of one term; there is one at a time."""

    def __init__(self, peer: str = MESOS) -> None:
        """Name the peer in messages."""
        self.peer = peer
        self.registration: Registration | None = None
        """The last registration, also without a connection."""
        self.since = math.inf
        """When the connection began, on the monotonic clock; infinity without one."""
        self._last_error = ""

    def begin(self, registration: Registration, now: float) -> None:
        """Note that a connection has begun."""
        assert registration.framework_id, "tasks are launched under the id of a framework"
        self.registration, self.since, self._last_error = registration, now, ""

    def end(self, reason: str) -> None:
        """Note that there is no connection any more."""
        self.since, self._last_error = math.inf, reason

    @property
    def up(self) -> bool:
        """Return whether there is a connection."""
        return self.since < math.inf

    @property
    def unhealthy(self) -> str:
        """Return why there is no connection, with the last error; empty while there is one."""
        if self.up:
            return ""
        return f"not subscribed with {self.peer}" + (f": {self._last_error}" if self._last_error else "")

    @property
    def master(self) -> Address:
        """Return the leading master. Raises Unavailable before the first connection."""
        if self.registration is None:
            raise Unavailable(f"the address of {self.peer} is not known yet")
        return self.registration.master

    def require(self, ready: bool) -> None:
        """Raise Unavailable while there is no connection, or while it is not `ready` for calls."""
        if not (self.up and ready):
            raise Unavailable(f"not subscribed with {self.peer} at the moment")

"""Which other server leads, where nobody tells it: asked while calls are without an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from peloton.client.channel import Metadata
from peloton.leaders import DOUBT_SECONDS, Doubts

PROBE_SECONDS = 0.4
"""How long a server may take to say whether it leads."""
HEALTH = "/grpc.health.v1.Health/Check"
SERVED = {
    "jobmgr": "peloton.api.v0.job.JobManager",
    "resmgr": "peloton.api.v0.respool.ResourceManager",
    "hostmgr": "peloton.api.v0.host.svc.HostService",
}
"""A service of each role that its leader alone serves."""
_SERVING = b"\x08\x01"
"""A HealthCheckResponse of SERVING."""


class Probes:
    """Asks servers whether they lead, by the standard health check. The connections are kept."""

    def __init__(
        self, role: str, open_channel: Callable[[str], grpc.Channel], metadata: Callable[[], Metadata]
    ) -> None:
        name = SERVED[role.partition("/")[0]].encode()
        self._request = b"\n" + bytes([len(name)]) + name
        self._open = open_channel
        self._metadata = metadata
        self._channels: dict[str, grpc.Channel] = {}

    def leads(self, target: str) -> bool:
        """Return whether a server says, soon, that it leads."""
        if target not in self._channels:
            self._channels[target] = self._open(target)
        ask: Any = self._channels[target].unary_unary(HEALTH)
        try:
            return bool(ask(self._request, timeout=PROBE_SECONDS, metadata=self._metadata()) == _SERVING)
        except (grpc.RpcError, ValueError):  # the latter where the client is closed
            return False

    def close(self) -> None:
        """Close the connections."""
        while self._channels:
            self._channels.popitem()[1].close()


class Seeker:
    """Notes calls under way; looks for the leader elsewhere while one is without an answer.

    Its thread lives while there are calls, and a few seconds longer.
    """

    def __init__(self, elsewhere: Callable[[str], str], tell: Callable[[str], object]) -> None:
        """Ask `elsewhere` who leads in place of a server (empty: nobody else), and tell who does."""
        self._elsewhere = elsewhere
        self._tell = tell
        self._doubts = Doubts(time.monotonic())
        self._changed = threading.Condition()
        self._running = False
        self._closed = False

    def begin(self, target: str) -> int:
        """Note a call to a server."""
        with self._changed:
            call = self._doubts.begin(target, time.monotonic())
            if not self._running and not self._closed:
                self._running = True
                threading.Thread(target=self._run, name="peloton-client-seeker", daemon=True).start()
        return call

    def end(self, call: int) -> None:
        """Note that a call has ended."""
        with self._changed:
            self._doubts.end(call)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while self._goes_on():
            with self._changed:
                doubted = self._doubts.doubted(time.monotonic())
            for target in doubted:
                if leader := self._elsewhere(target):
                    self._tell(leader)

    def _goes_on(self) -> bool:
        """Wait for a moment; return False, for good, where nobody calls any more."""
        with self._changed:
            if not self._closed:
                self._changed.wait(DOUBT_SECONDS / 2)
            self._running = not self._closed and not self._doubts.idle(time.monotonic())
            return self._running

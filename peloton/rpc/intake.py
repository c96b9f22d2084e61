"""How long new calls wait inside gRPC before this process sees them, measured by calls to itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

MEASURED_SECONDS = 5.0
"""It is measured for so long after somebody wanted to know it: an idle daemon does not call itself."""
PAUSE_SECONDS, PROBE_SECONDS = 0.02, 10.0
"""Time between two calls, and the longest that one of them waits."""
Probe = Callable[[], Awaitable[None]]


class Intake:
    """The delay of new calls, as the last call to itself or the one under way tells."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wanted = asyncio.Event()
        self._until = 0.0
        self._sent: float | None = None
        self._last = 0.0

    def want(self, now: float) -> None:
        """Measure it for some seconds."""
        self._until = now + MEASURED_SECONDS
        self._wanted.set()

    def delay(self, now: float) -> float:
        """Return the seconds that new calls wait; 0 where that is not being measured."""
        return self._last if self._sent is None else max(self._last, now - self._sent)

    async def measure(self, probe: Probe) -> None:
        """Measure with a call, whenever it is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            while self._clock() < self._until:
                self._sent = self._clock()
                await probe()
                self._last, self._sent = self._clock() - self._sent, None
                await asyncio.sleep(PAUSE_SECONDS)
            self._wanted.clear()
            self._last = 0.0


def health_probe(channel: Any) -> Probe:
    """Return a probe that asks for the health by a channel. Any answer will do, refusals too."""
    check = health_pb2_grpc.HealthStub(channel).Check

    async def probe() -> None:
        try:
            await check(health_pb2.HealthCheckRequest(), timeout=PROBE_SECONDS)
        except grpc.aio.AioRpcError:
            return

    return probe
